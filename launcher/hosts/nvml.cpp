#include "hosts/nvml.hpp"

#include <array>
#include <memory>

#include <dlfcn.h>
#include <fmt/format.h>

namespace hvdrun {
namespace {

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

// Absent before driver 450; null then.
#define HVD_NVML_OPTIONAL(X)                                              \
  X(NvmlReturn, nvmlDeviceGetMigMode, (NvmlDevice, unsigned*, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetMaxMigDeviceCount, (NvmlDevice, unsigned*))  \
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

  ~NvmlLibrary() {
    if (started_) nvmlShutdown();
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

 private:
  explicit NvmlLibrary(void* handle) : handle_(handle) {}

  template <class Function>
  bool find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    return function != nullptr;
  }

  // The name of a function that the library lacks; null when it has all that is required.
  const char* find_functions() {
    const char* missing = nullptr;
#define HVD_NVML_FIND(result, name, parameters) \
  if (!find(name, #name) && missing == nullptr) missing = #name;
    HVD_NVML_REQUIRED(HVD_NVML_FIND)
#undef HVD_NVML_FIND
#define HVD_NVML_FIND(result, name, parameters) find(name, #name);
    HVD_NVML_OPTIONAL(HVD_NVML_FIND)
#undef HVD_NVML_FIND
    return missing;
  }

  void* handle_;
  bool started_ = false;
};

std::unique_ptr<NvmlLibrary> NvmlLibrary::open(const std::string& path, NvmlScan& scan) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    scan.problem = fmt::format("no NVIDIA driver ({} was not found)", path);
    return nullptr;
  }
  std::unique_ptr<NvmlLibrary> library(new NvmlLibrary(handle));
  if (const char* missing = library->find_functions()) {
    scan.problem = fmt::format("{} lacks {}: the NVIDIA driver is too old", path, missing);
    scan.broken = true;
    return nullptr;
  }
  if (const NvmlReturn status = library->nvmlInit_v2(); status != kNvmlSuccess) {
    scan.problem = fmt::format("NVML does not start: {}", library->nvmlErrorString(status));
    // A machine of the cluster that has the library but no GPU is an ordinary one.
    scan.broken = status != kNvmlDriverNotLoaded;
    return nullptr;
  }
  library->started_ = true;
  return library;
}

template <class Function>
std::string read_text(Function* function, NvmlDevice device) {
  std::array<char, 96> text{};  // NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_DEVICE_NAME_V2_BUFFER_SIZE
  if (function(device, text.data(), text.size()) != kNvmlSuccess) return {};
  return text.data();
}

std::uint64_t read_memory(const NvmlLibrary& nvml, NvmlDevice device) {
  NvmlMemory memory{};
  return nvml.nvmlDeviceGetMemoryInfo(device, &memory) == kNvmlSuccess ? memory.total : 0;
}

std::string read_pci_address(const NvmlLibrary& nvml, NvmlDevice device) {
  NvmlPciInfo pci{};
  if (nvml.nvmlDeviceGetPciInfo_v3(device, &pci) != kNvmlSuccess) return {};
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

bool has_mig(const NvmlLibrary& nvml, NvmlDevice device) {
  unsigned current = 0;
  unsigned pending = 0;
  return nvml.nvmlDeviceGetMigMode != nullptr && nvml.nvmlDeviceGetMaxMigDeviceCount != nullptr &&
         nvml.nvmlDeviceGetMigDeviceHandleByIndex != nullptr &&
         nvml.nvmlDeviceGetMigMode(device, &current, &pending) == kNvmlSuccess &&
         current == kNvmlMigEnabled;
}

std::vector<NvmlMigDevice> read_mig_devices(const NvmlLibrary& nvml, NvmlDevice gpu) {
  std::vector<NvmlMigDevice> devices;
  unsigned places = 0;
  nvml.nvmlDeviceGetMaxMigDeviceCount(gpu, &places);
  for (unsigned place = 0; place < places; ++place) {
    NvmlDevice device = nullptr;
    // Places may be empty.
    if (nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place, &device) != kNvmlSuccess) continue;
    devices.push_back({read_text(nvml.nvmlDeviceGetUUID, device),
                       read_text(nvml.nvmlDeviceGetName, device), read_memory(nvml, device)});
  }
  return devices;
}

NvmlGpu read_gpu(const NvmlLibrary& nvml, NvmlDevice device) {
  NvmlGpu gpu;
  gpu.uuid = read_text(nvml.nvmlDeviceGetUUID, device);
  gpu.pci_address = read_pci_address(nvml, device);
  gpu.name = read_text(nvml.nvmlDeviceGetName, device);
  gpu.memory_bytes = read_memory(nvml, device);
  gpu.mig_enabled = has_mig(nvml, device);
  if (gpu.mig_enabled) gpu.mig_devices = read_mig_devices(nvml, device);
  return gpu;
}

}  // namespace

NvmlScan scan_nvml(const std::string& path) {
  NvmlScan scan;
  const auto nvml = NvmlLibrary::open(path, scan);
  if (nvml == nullptr) return scan;

  scan.loaded = true;
  unsigned count = 0;
  nvml->nvmlDeviceGetCount_v2(&count);
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    // A GPU that fell off the bus, or that a container does not show, has no handle; CUDA does not
    // count it either.
    if (nvml->nvmlDeviceGetHandleByIndex_v2(index, &device) != kNvmlSuccess) continue;
    scan.gpus.push_back(read_gpu(*nvml, device));
  }
  return scan;
}

}  // namespace hvdrun
