#include "gpus/nvidia/nvml.hpp"

#include "gpus/nvidia/nvml_library.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

template <class Function>
std::string read_text(Function* function, NvmlDevice device) {
  std::array<char, std::max(kNvmlUuidSize, kNvmlNameSize)> text{};
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
  unsigned positions = 0;
  nvml.nvmlDeviceGetMaxMigDeviceCount(gpu, &positions);
  for (unsigned position = 0; position < positions; ++position) {
    NvmlDevice device = nullptr;
    // Positions may be empty.
    if (nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, position, &device) != kNvmlSuccess) continue;
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
  NvmlFailure failure;
  const auto nvml = NvmlLibrary::open(path, failure);
  if (nvml == nullptr) {
    scan.problem = std::move(failure.problem);
    scan.broken = failure.broken;
    return scan;
  }

  scan.loaded = true;
  unsigned count = 0;
  nvml->nvmlDeviceGetCount_v2(&count);
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    // A GPU that fell off the bus, or that a container hides, has no handle. CUDA skips it too.
    const auto got = nvml->nvmlDeviceGetHandleByIndex_v2(index, &device);
    if (got == kNvmlGpuIsLost) scan.lost.push_back(static_cast<int>(index));
    if (got != kNvmlSuccess) continue;
    scan.gpus.push_back(read_gpu(*nvml, device));
  }
  return scan;
}

}  // namespace hvdrun
