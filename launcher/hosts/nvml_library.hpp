// NVIDIA's management library, opened at run time: the functions of it that hvdrun uses.
//
// Source: NVML API Reference, NVIDIA. For hosts/ only: all others take the values of nvml.hpp and
// nvml_watch.hpp.
#pragma once

#include "hosts/nvml.hpp"

#include <memory>
#include <string>

namespace hvdrun {

// The few declarations that are needed of nvml.h; they have been stable since the versioned names
// (_v2, _v3) came with driver 390.
using NvmlReturn = int;
using NvmlDevice = void*;
constexpr NvmlReturn kNvmlSuccess = 0;
constexpr NvmlReturn kNvmlDriverNotLoaded = 9;
constexpr unsigned kNvmlMigEnabled = 1;

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

// May be absent, the last three before driver 450; null then.
#define HVD_NVML_OPTIONAL(X)                                                   \
  X(NvmlReturn, nvmlDeviceGetHandleByUUID, (const char*, NvmlDevice*))         \
  X(NvmlReturn, nvmlDeviceGetUtilizationRates, (NvmlDevice, NvmlUtilization*)) \
  X(NvmlReturn, nvmlDeviceGetMigMode, (NvmlDevice, unsigned*, unsigned*))      \
  X(NvmlReturn, nvmlDeviceGetMaxMigDeviceCount, (NvmlDevice, unsigned*))       \
  X(NvmlReturn, nvmlDeviceGetMigDeviceHandleByIndex, (NvmlDevice, unsigned, NvmlDevice*))

// The open library with its functions; shuts NVML down and closes it at the end of its life.
class NvmlLibrary {
 public:
// A declaration cannot stand in parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define HVD_NVML_DECLARE(result, name, parameters) result(*name) parameters = nullptr;
  HVD_NVML_REQUIRED(HVD_NVML_DECLARE)
  HVD_NVML_OPTIONAL(HVD_NVML_DECLARE)
#undef HVD_NVML_DECLARE

  // Null, with scan.problem told, when the library is absent or does not start.
  static std::unique_ptr<NvmlLibrary> open(const std::string& path, NvmlScan& scan);

  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

 private:
  explicit NvmlLibrary(void* handle) : handle_(handle) {}

  template <class Function>
  bool find(Function*& function, const char* name);

  // The name of a function that the library lacks; null when it has all that is required.
  const char* find_functions();

  void* handle_;
  bool started_ = false;
};

}  // namespace hvdrun
