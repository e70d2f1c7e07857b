#include "resources/nvml_watch.hpp"

#include "resources/nvml_library.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace hvdrun {

std::unique_ptr<NvmlWatch> NvmlWatch::open(const std::vector<std::string>& uuids,
                                           const std::string& library) {
  NvmlFailure failure;
  auto nvml = NvmlLibrary::open(library, failure);
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
