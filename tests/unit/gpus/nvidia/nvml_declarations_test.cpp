// Compares hvdrun's declarations of NVML with NVIDIA's header, mostly at compile time.
#include "gpus/nvidia/nvml_library.hpp"
#include "runtime/gpu/declarations.hpp"

#include <cstddef>

#include <gtest/gtest.h>
#include <nvml.h>

namespace hvdrun {
namespace {

using libhvd::test::Alike;

// Old drivers have only the deprecated functions.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define HVD_COMPARE(result, name, parameters) \
  static_assert(Alike<decltype(&::name), decltype(NvmlLibrary::name)>::value, #name);
HVD_NVML_REQUIRED(HVD_COMPARE)
HVD_NVML_OPTIONAL(HVD_COMPARE)
#undef HVD_COMPARE

static_assert(kNvmlSuccess == NVML_SUCCESS);
static_assert(kNvmlInsufficientSize == NVML_ERROR_INSUFFICIENT_SIZE);
static_assert(kNvmlDriverNotLoaded == NVML_ERROR_DRIVER_NOT_LOADED);
static_assert(kNvmlMigEnabled == NVML_DEVICE_MIG_ENABLE);
static_assert(kNvmlUuidSize == NVML_DEVICE_UUID_V2_BUFFER_SIZE);
static_assert(kNvmlNameSize == NVML_DEVICE_NAME_V2_BUFFER_SIZE);
static_assert(kNvmlNotAvailable == static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE));
static_assert(kNvmlGpuSensor == NVML_TEMPERATURE_GPU);
static_assert(kNvmlTemperatureVersion == nvmlTemperature_v1);

static_assert(kNvmlPowerCap == nvmlClocksEventReasonSwPowerCap);
static_assert(kNvmlHwSlowdown == nvmlClocksThrottleReasonHwSlowdown);
static_assert(kNvmlSwThermal == nvmlClocksEventReasonSwThermalSlowdown);
static_assert(kNvmlHwThermal == nvmlClocksThrottleReasonHwThermalSlowdown);
static_assert(kNvmlPowerBrake == nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
static_assert(kNvmlBoardLimit == nvmlClocksEventReasonBoardLimit);
static_assert(kNvmlReliability == nvmlClocksEventReasonReliability);
// Checks that a member has the same offset and size in both structures.
#define HVD_SAME_MEMBER(Ours, ours, Theirs, theirs)                \
  static_assert(offsetof(Ours, ours) == offsetof(Theirs, theirs)); \
  static_assert(sizeof(Ours::ours) == sizeof(Theirs::theirs))

static_assert(sizeof(NvmlPciInfo) == sizeof(nvmlPciInfo_t));
HVD_SAME_MEMBER(NvmlPciInfo, bus_id_legacy, nvmlPciInfo_t, busIdLegacy);
HVD_SAME_MEMBER(NvmlPciInfo, domain, nvmlPciInfo_t, domain);
HVD_SAME_MEMBER(NvmlPciInfo, bus, nvmlPciInfo_t, bus);
HVD_SAME_MEMBER(NvmlPciInfo, device, nvmlPciInfo_t, device);
HVD_SAME_MEMBER(NvmlPciInfo, pci_device_id, nvmlPciInfo_t, pciDeviceId);
HVD_SAME_MEMBER(NvmlPciInfo, pci_subsystem_id, nvmlPciInfo_t, pciSubSystemId);
HVD_SAME_MEMBER(NvmlPciInfo, bus_id, nvmlPciInfo_t, busId);

static_assert(sizeof(NvmlUtilization) == sizeof(nvmlUtilization_t));
HVD_SAME_MEMBER(NvmlUtilization, gpu, nvmlUtilization_t, gpu);
HVD_SAME_MEMBER(NvmlUtilization, memory, nvmlUtilization_t, memory);

static_assert(sizeof(NvmlMemory) == sizeof(nvmlMemory_t));
HVD_SAME_MEMBER(NvmlMemory, total, nvmlMemory_t, total);
HVD_SAME_MEMBER(NvmlMemory, free, nvmlMemory_t, free);
HVD_SAME_MEMBER(NvmlMemory, used, nvmlMemory_t, used);

static_assert(sizeof(NvmlProcess) == sizeof(nvmlProcessInfo_t));
HVD_SAME_MEMBER(NvmlProcess, pid, nvmlProcessInfo_t, pid);
HVD_SAME_MEMBER(NvmlProcess, used_memory, nvmlProcessInfo_t, usedGpuMemory);
HVD_SAME_MEMBER(NvmlProcess, gpu_instance, nvmlProcessInfo_t, gpuInstanceId);
HVD_SAME_MEMBER(NvmlProcess, compute_instance, nvmlProcessInfo_t, computeInstanceId);

static_assert(sizeof(NvmlTemperature) == sizeof(nvmlTemperature_v1_t));
HVD_SAME_MEMBER(NvmlTemperature, version, nvmlTemperature_v1_t, version);
HVD_SAME_MEMBER(NvmlTemperature, sensor, nvmlTemperature_v1_t, sensorType);
HVD_SAME_MEMBER(NvmlTemperature, celsius, nvmlTemperature_v1_t, temperature);

TEST(NvmlDeclarations, CoverEveryThrottleReason) {
  constexpr auto kReported = kNvmlPowerCap | kNvmlHwSlowdown | kNvmlSwThermal | kNvmlHwThermal |
                             kNvmlPowerBrake | kNvmlBoardLimit | kNvmlReliability;
  // Not reported: the GPU is idle, or a user has set its clocks.
  constexpr auto kLeftOut =
      nvmlClocksEventReasonGpuIdle | nvmlClocksEventReasonApplicationsClocksSetting |
      nvmlClocksEventReasonSyncBoost | nvmlClocksEventReasonDisplayClockSetting;
  EXPECT_EQ(kReported | kLeftOut, nvmlClocksEventReasonAll)
      << "NVIDIA's header has a throttle reason that hvdrun lacks";
}

}  // namespace
}  // namespace hvdrun
