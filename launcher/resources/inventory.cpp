#include "resources/inventory.hpp"

#include "common/system.hpp"
#include "common/text.hpp"
#include "resources/cpu_quota.hpp"
#include "resources/topology.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>
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

// The GPUs of one vendor.
struct VendorGpus {
  std::string vendor;
  GpuList list;
};

// Says for each vendor why it has no GPUs.
VendorGpus no_gpus(const std::vector<VendorGpus>& all) {
  VendorGpus none;
  for (const auto& [vendor, list] : all) {
    none.list.source += (none.list.source.empty() ? "" : "; ") + list.source;
    std::ranges::copy(list.notes, std::back_inserter(none.list.notes));
  }
  return none;
}

VendorGpus find_gpus(const Environment& environment, const GpuVendors& vendors) {
  std::vector<VendorGpus> all;
  for (const auto& vendor : vendors) all.push_back({vendor.name, vendor.list(environment)});
  const auto has_gpus = [](const VendorGpus& gpus) { return !gpus.list.gpus.empty(); };
  const auto shows_gpus = [&](const VendorGpus& gpus) {
    return has_gpus(gpus) && gpus.list.has_driver;
  };
  auto used = std::ranges::find_if(all, shows_gpus);
  // SLURM may set the variables of all vendors, so a vendor without a driver is the last choice.
  if (used == all.end()) used = std::ranges::find_if(all, has_gpus);
  if (used == all.end()) return no_gpus(all);
  for (auto other = all.begin(); other != all.end(); ++other) {
    if (other == used || !shows_gpus(*other)) continue;
    const std::size_t count = other->list.gpus.size();
    used->list.notes.push_back(fmt::format("{} of {} {} not used, since ranks use GPUs of {}",
                                           plural(count, "GPU"), other->vendor,
                                           count == 1 ? "is" : "are", used->vendor));
  }
  return std::move(*used);
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
  auto [vendor, gpus] = find_gpus(environment, sources.gpu_vendors);

  HostInventory inventory;
  inventory.gpu_vendor = std::move(vendor);
  inventory.gpus = std::move(gpus.gpus);
  for (auto& gpu : inventory.gpus) {
    auto near = locality_of(gpu, topology, !file.empty(), sources);
    gpu.numa_node = near.numa_node;
    gpu.near_cpus = std::move(near.cpus);
  }
  inventory.gpus_need_list = gpus.needs_list;
  inventory.single_because = std::move(gpus.single_because);
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
