#include "resources/inventory.hpp"

#include "common/system.hpp"
#include "resources/cpu_quota.hpp"
#include "resources/nvml.hpp"
#include "resources/topology.hpp"
#include "resources/visible_gpus.hpp"

#include <optional>
#include <utility>

#include <pwd.h>
#include <unistd.h>

namespace hvdrun {
namespace {

std::filesystem::path topology_file(const Environment& environment,
                                    const InventorySources& sources) {
  if (!sources.topology_file.empty()) return sources.topology_file;
  const std::string* variable = find_variable(environment, "HVD_TOPOLOGY");
  return variable == nullptr ? std::filesystem::path() : std::filesystem::path(*variable);
}

GpuList find_gpus(const Environment& environment, const InventorySources& sources) {
  std::optional<std::string> visible;
  if (const std::string* value = find_variable(environment, "CUDA_VISIBLE_DEVICES"))
    visible = *value;
  const std::string* order = find_variable(environment, "CUDA_DEVICE_ORDER");
  const bool pci_bus_order = order != nullptr && *order == "PCI_BUS_ID";
  const NvmlScan nvml = names_devices(visible) ? scan_nvml(sources.nvml_library) : NvmlScan{};
  const bool other_order = order != nullptr && !order->empty() && !pci_bus_order;
  return visible_gpus(visible, pci_bus_order, nvml, other_order);
}

Locality locality_of(const Gpu& gpu, const Topology& topology, bool from_file,
                     const InventorySources& sources) {
  if (gpu.pci_address.empty()) return {};
  if (!from_file) return pci_locality(sources.sysfs, gpu.pci_address, topology.cores);
  const auto found = topology.pci_devices.find(gpu.pci_address);
  return found == topology.pci_devices.end() ? Locality{} : found->second;
}

// Returns where the sysfs of the cores is. hwloc reads another machine's where HWLOC_FSROOT says.
std::filesystem::path sysfs_of_cores(const Environment& environment,
                                     const InventorySources& sources) {
  const std::string* root = find_variable(environment, "HWLOC_FSROOT");
  return root == nullptr ? sources.sysfs : std::filesystem::path(*root) / "sys";
}

}  // namespace

Result<HostInventory> local_inventory(const Environment& environment,
                                      const InventorySources& sources) {
  const auto file = topology_file(environment, sources);
  HVD_TRY(Topology topology, file.empty() ? live_topology(sysfs_of_cores(environment, sources))
                                          : topology_from_file(file));
  GpuList gpus = find_gpus(environment, sources);

  HostInventory inventory;
  inventory.gpus = std::move(gpus.gpus);
  for (auto& gpu : inventory.gpus) {
    auto near = locality_of(gpu, topology, !file.empty(), sources);
    gpu.numa_node = near.numa_node;
    gpu.near_cpus = std::move(near.cpus);
  }
  inventory.gpus_need_list = gpus.needs_list;
  inventory.gpu_source = std::move(gpus.source);
  inventory.notes = std::move(gpus.notes);
  inventory.cores = std::move(topology.cores);
  inventory.numa_nodes = std::move(topology.numa_nodes);
  if (file.empty()) inventory.cpu_quota = cpu_quota(sources.cgroup_list, sources.cgroups);
  inventory.topology_file = file.string();
  return inventory;
}

Result<LocalMachine> local_machine(const Environment& environment,
                                   const InventorySources& sources) {
  HVD_TRY(HostInventory inventory, local_inventory(environment, sources));
  const passwd* const user = ::getpwuid(::geteuid());
  return LocalMachine{local_host_name(), std::move(inventory),
                      user == nullptr ? std::string() : std::string(user->pw_name)};
}

}  // namespace hvdrun
