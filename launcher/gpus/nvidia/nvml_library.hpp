// NVIDIA's management library (NVML), opened at run time: the functions and declarations of it that
// hvdrun uses. Source: NVML API Reference, NVIDIA.
//
// For one thread at a time.
#pragma once

#include "common/shared_library.hpp"

#include <memory>
#include <string>

namespace hvdrun {

// The declarations of nvml.h that are needed. They have been stable since driver 390 introduced the
// versioned names (_v2, _v3). nvml_declarations_test.cpp compares them with NVIDIA's header.
using NvmlReturn = int;
using NvmlDevice = void*;
constexpr NvmlReturn kNvmlSuccess = 0;
constexpr NvmlReturn kNvmlInsufficientSize = 7;
constexpr NvmlReturn kNvmlDriverNotLoaded = 9;
constexpr NvmlReturn kNvmlGpuIsLost = 15;
constexpr unsigned kNvmlMigEnabled = 1;
constexpr unsigned kNvmlUuidSize = 96;  // of the buffer, as the next one
constexpr unsigned kNvmlNameSize = 96;

// Bits of why a GPU's clocks are lower than they could be.
constexpr unsigned long long kNvmlPowerCap = 0x4;
constexpr unsigned long long kNvmlHwSlowdown = 0x8;  // also with HwThermal and PowerBrake
constexpr unsigned long long kNvmlSwThermal = 0x20;
constexpr unsigned long long kNvmlHwThermal = 0x40;
constexpr unsigned long long kNvmlPowerBrake = 0x80;
constexpr unsigned long long kNvmlBoardLimit = 0x200;
constexpr unsigned long long kNvmlReliability = 0x400;

struct NvmlPciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

struct NvmlUtilization {
  unsigned gpu;  // per cent of the last sampling period in which a kernel ran
  unsigned memory;
};

struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

constexpr unsigned long long kNvmlNotAvailable = ~0ull;  // NVML_VALUE_NOT_AVAILABLE, -1

struct NvmlProcess {
  unsigned pid;
  unsigned long long used_memory;  // or kNvmlNotAvailable
  unsigned gpu_instance;
  unsigned compute_instance;
};

constexpr int kNvmlGpuSensor = 0;

struct NvmlTemperature {
  unsigned version;  // kNvmlTemperatureVersion; set by the caller, as the sensor
  int sensor;
  int celsius;
};
// NVML_STRUCT_VERSION: the struct's size and, from bit 24 on, the number of its version.
constexpr unsigned kNvmlTemperatureVersion = sizeof(NvmlTemperature) | 1u << 24;

// X(result, name, parameters)
#define HVD_NVML_REQUIRED(X)                                            \
  X(NvmlReturn, nvmlInit_v2, (void))                                    \
  X(NvmlReturn, nvmlShutdown, (void))                                   \
  X(const char*, nvmlErrorString, (NvmlReturn))                         \
  X(NvmlReturn, nvmlDeviceGetCount_v2, (unsigned*))                     \
  X(NvmlReturn, nvmlDeviceGetHandleByIndex_v2, (unsigned, NvmlDevice*)) \
  X(NvmlReturn, nvmlDeviceGetUUID, (NvmlDevice, char*, unsigned))       \
  X(NvmlReturn, nvmlDeviceGetName, (NvmlDevice, char*, unsigned))       \
  X(NvmlReturn, nvmlDeviceGetMemoryInfo, (NvmlDevice, NvmlMemory*))     \
  X(NvmlReturn, nvmlDeviceGetPciInfo_v3, (NvmlDevice, NvmlPciInfo*))

// Null in older drivers: the MIG functions before 450, the one for processes before 510, that for
// clocks event reasons before 535, and nvmlDeviceGetTemperatureV before 570. A later driver may
// lack nvmlDeviceGetTemperature and nvmlDeviceGetCurrentClocksThrottleReasons, which are
// deprecated.
#define HVD_NVML_OPTIONAL(X)                                                                    \
  X(NvmlReturn, nvmlDeviceGetHandleByUUID, (const char*, NvmlDevice*))                          \
  X(NvmlReturn, nvmlDeviceGetUtilizationRates, (NvmlDevice, NvmlUtilization*))                  \
  X(NvmlReturn, nvmlDeviceGetComputeRunningProcesses_v3, (NvmlDevice, unsigned*, NvmlProcess*)) \
  X(NvmlReturn, nvmlDeviceGetTemperatureV, (NvmlDevice, NvmlTemperature*))                      \
  X(NvmlReturn, nvmlDeviceGetTemperature, (NvmlDevice, int, unsigned*))                         \
  X(NvmlReturn, nvmlDeviceGetPowerUsage, (NvmlDevice, unsigned*))                               \
  X(NvmlReturn, nvmlDeviceGetCurrentClocksEventReasons, (NvmlDevice, unsigned long long*))      \
  X(NvmlReturn, nvmlDeviceGetCurrentClocksThrottleReasons, (NvmlDevice, unsigned long long*))   \
  X(NvmlReturn, nvmlDeviceGetMigMode, (NvmlDevice, unsigned*, unsigned*))                       \
  X(NvmlReturn, nvmlDeviceGetMaxMigDeviceCount, (NvmlDevice, unsigned*))                        \
  X(NvmlReturn, nvmlDeviceGetMigDeviceHandleByIndex, (NvmlDevice, unsigned, NvmlDevice*))

// Why the library was not opened.
struct NvmlFailure {
  std::string problem;  // one line, for the user
  bool broken = false;  // the library is there, but fails
};

// The open library with its functions. The destructor shuts NVML down and closes the library.
class NvmlLibrary {
 public:
// A declaration cannot be in parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define HVD_NVML_DECLARE(result, name, parameters) result(*name) parameters = nullptr;
  HVD_NVML_REQUIRED(HVD_NVML_DECLARE)
  HVD_NVML_OPTIONAL(HVD_NVML_DECLARE)
#undef HVD_NVML_DECLARE

  // Returns null, and fills `failure`, if the library is absent or does not start.
  static std::unique_ptr<NvmlLibrary> open(const std::string& path, NvmlFailure& failure);

  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

 private:
  explicit NvmlLibrary(const SharedLibrary& library) : library_(library) {}

  // Returns the name of a required function that the library lacks, or null if it has all.
  const char* find_functions();

  SharedLibrary library_;
  bool started_ = false;
};

}  // namespace hvdrun
