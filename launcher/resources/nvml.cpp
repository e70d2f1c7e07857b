#include "resources/nvml.hpp"

#include "common/shared_library.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace hvdrun {

NvmlLibrary::~NvmlLibrary() {
  if (started_) nvmlShutdown();
  library_.close();
}

const char* NvmlLibrary::find_functions() {
  const char* missing = nullptr;
#define HVD_NVML_FIND(result, name, parameters) \
  if (!library_.find(#name, name) && missing == nullptr) missing = #name;
  HVD_NVML_REQUIRED(HVD_NVML_FIND)
#undef HVD_NVML_FIND
#define HVD_NVML_FIND(result, name, parameters) static_cast<void>(library_.find(#name, name));
  HVD_NVML_OPTIONAL(HVD_NVML_FIND)
#undef HVD_NVML_FIND
  return missing;
}

std::unique_ptr<NvmlLibrary> NvmlLibrary::open(const std::string& path, NvmlScan& scan) {
  const auto opened = SharedLibrary::open(path);
  if (!opened) {
    scan.problem = fmt::format("no NVIDIA driver ({} was not found)", path);
    return nullptr;
  }
  std::unique_ptr<NvmlLibrary> library(new NvmlLibrary(*opened));
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

namespace {

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

std::unique_ptr<NvmlWatch> NvmlWatch::open(const std::vector<std::string>& uuids,
                                           const std::string& library) {
  NvmlScan scan;
  auto nvml = NvmlLibrary::open(library, scan);
  if (nvml == nullptr || nvml->nvmlDeviceGetHandleByUUID == nullptr) return nullptr;
  std::unique_ptr<NvmlWatch> watch(new NvmlWatch(std::move(nvml)));
  for (const auto& uuid : uuids) {
    NvmlDevice device = nullptr;
    if (watch->library_->nvmlDeviceGetHandleByUUID(uuid.c_str(), &device) != kNvmlSuccess) continue;
    watch->devices_.push_back(device);
    watch->uses_.emplace_back().uuid = uuid;
  }
  return watch->uses_.empty() ? nullptr : std::move(watch);
}

NvmlWatch::NvmlWatch(std::unique_ptr<NvmlLibrary> library) : library_(std::move(library)) {}

NvmlWatch::~NvmlWatch() = default;

void NvmlWatch::look() {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    GpuUse& use = uses_[i];
    NvmlMemory memory{};
    if (library_->nvmlDeviceGetMemoryInfo(devices_[i], &memory) != kNvmlSuccess) continue;
    use.peak_memory_bytes = std::max<std::uint64_t>(use.peak_memory_bytes, memory.used);
    ++use.looks;
    NvmlUtilization utilization{};
    const auto ask = library_->nvmlDeviceGetUtilizationRates;
    use.busy_is_known = ask != nullptr && ask(devices_[i], &utilization) == kNvmlSuccess;
    if (use.busy_is_known)
      use.busy_percent += (utilization.gpu - use.busy_percent) / static_cast<double>(use.looks);
    std::array<NvmlProcess, 256> processes{};
    auto count = static_cast<unsigned>(processes.size());
    const auto list = library_->nvmlDeviceGetComputeRunningProcesses_v3;
    if (list == nullptr || list(devices_[i], &count, processes.data()) != kNvmlSuccess) continue;
    for (unsigned each = 0; each < count; ++each)
      use.pids.insert(static_cast<int>(processes[each].pid));
  }
}

}  // namespace hvdrun
