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
// versioned names (_v2, _v3).
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

struct NvmlProcess {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
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

// Null in older drivers: the MIG functions before 450, the one for processes before 510.
#define HVD_NVML_OPTIONAL(X)                                                                    \
  X(NvmlReturn, nvmlDeviceGetHandleByUUID, (const char*, NvmlDevice*))                          \
  X(NvmlReturn, nvmlDeviceGetUtilizationRates, (NvmlDevice, NvmlUtilization*))                  \
  X(NvmlReturn, nvmlDeviceGetComputeRunningProcesses_v3, (NvmlDevice, unsigned*, NvmlProcess*)) \
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
