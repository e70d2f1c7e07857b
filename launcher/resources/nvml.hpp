// What NVIDIA's management library says about this machine's GPUs. The library is opened at run
// time (dlopen), so hvdrun needs no driver to build or to run. Source: NVML API Reference, NVIDIA.
//
// The first call into the library attaches to every GPU: some ten milliseconds where the driver is
// resident (persistence mode), more where it is not.
#pragma once

#include "common/shared_library.hpp"
#include "model/report.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

// A part of a GPU that is used like a GPU (Multi-Instance GPU).
struct NvmlMigDevice {
  std::string uuid;  // "MIG-…"
  std::string name;
  std::uint64_t memory_bytes = 0;
};

struct NvmlGpu {
  std::string uuid;         // "GPU-…"
  std::string pci_address;  // "0000:3b:00.0", as in sysfs
  std::string name;
  std::uint64_t memory_bytes = 0;
  bool mig_enabled = false;
  std::vector<NvmlMigDevice> mig_devices;
};

struct NvmlScan {
  bool loaded = false;        // the library is there and answered
  std::string problem;        // why it did not; never empty then
  bool broken = false;        // the library is there, but fails: worth a note to the user
  std::vector<NvmlGpu> gpus;  // in NVML's order: ascending PCI address
};

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// Never fails: a machine without a driver is an ordinary one, and what went wrong is in the value.
NvmlScan scan_nvml(const std::string& library = kNvmlLibrary);

// NVIDIA's management library, opened at run time: the functions of it that hvdrun uses.
//
// Source: NVML API Reference, NVIDIA.

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

// May be absent, the MIG functions before driver 450, that for processes before 510; null then.
#define HVD_NVML_OPTIONAL(X)                                                                    \
  X(NvmlReturn, nvmlDeviceGetHandleByUUID, (const char*, NvmlDevice*))                          \
  X(NvmlReturn, nvmlDeviceGetUtilizationRates, (NvmlDevice, NvmlUtilization*))                  \
  X(NvmlReturn, nvmlDeviceGetComputeRunningProcesses_v3, (NvmlDevice, unsigned*, NvmlProcess*)) \
  X(NvmlReturn, nvmlDeviceGetMigMode, (NvmlDevice, unsigned*, unsigned*))                       \
  X(NvmlReturn, nvmlDeviceGetMaxMigDeviceCount, (NvmlDevice, unsigned*))                        \
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
  explicit NvmlLibrary(const SharedLibrary& library) : library_(library) {}

  // The name of a function that the library lacks; null when it has all that is required.
  const char* find_functions();

  SharedLibrary library_;
  bool started_ = false;
};

// How busy GPUs are and how much of their memory is in use, as NVML says it: asked every now and
// then, and summed up.
//
// On one thread at a time; what NVML does in a call may take long when a GPU is in trouble.

class NvmlLibrary;

class NvmlWatch {
 public:
  // Of GPUs and MIG devices with these UUIDs; null where NVML, or all of them, are not there.
  static std::unique_ptr<NvmlWatch> open(const std::vector<std::string>& uuids,
                                         const std::string& library = kNvmlLibrary);
  ~NvmlWatch();
  NvmlWatch(const NvmlWatch&) = delete;
  NvmlWatch& operator=(const NvmlWatch&) = delete;

  void look();
  // By then, in the order of the UUIDs.
  const std::vector<GpuUse>& uses() const { return uses_; }

 private:
  explicit NvmlWatch(std::unique_ptr<NvmlLibrary> library);

  std::unique_ptr<NvmlLibrary> library_;
  std::vector<void*> devices_;  // NVML's handles, of uses_
  std::vector<GpuUse> uses_;
};

}  // namespace hvdrun
