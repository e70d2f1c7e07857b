#include "gpus/nvidia/nvidia_gpus.hpp"

#include "base/environment.hpp"
#include "gpus/nvidia/nvml_watch.hpp"
#include "gpus/nvidia/visible_gpus.hpp"

#include <optional>
#include <vector>

namespace hvdrun {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr const char* kOrder = "CUDA_DEVICE_ORDER";
constexpr const char* kPciOrder = "PCI_BUS_ID";

GpuList list_gpus(const Environment& environment, const std::string& library) {
  std::optional<std::string> visible;
  if (const std::string* value = find_variable(environment, kVisible)) visible = *value;
  const std::string* order = find_variable(environment, kOrder);
  const bool pci_bus_order = order != nullptr && *order == kPciOrder;
  const NvmlScan nvml = names_devices(visible) ? scan_nvml(library) : NvmlScan{};
  const bool other_order = order != nullptr && !order->empty() && !pci_bus_order;
  return visible_gpus(visible, pci_bus_order, nvml, other_order);
}

}  // namespace

GpuVendor nvidia_gpus(const std::string& library) {
  return {
      "NVIDIA",
      {kVisible, kOrder, kPciOrder},
      [library](const Environment& environment) { return list_gpus(environment, library); },
      [library](const std::vector<std::string>& names) { return NvmlWatch::open(names, library); }};
}

}  // namespace hvdrun
