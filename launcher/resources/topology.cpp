#include "resources/topology.hpp"

#include "base/system.hpp"
#include "common/file_content.hpp"
#include "resources/core_kinds.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <hwloc.h>

namespace hvdrun {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using TopologyHandle = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, TopologyDeleter>;

struct BitmapDeleter {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, BitmapDeleter>;

// Points hwloc's search for plugins at a missing folder during its life, unless the user set one.
class WithoutPlugins {
 public:
  WithoutPlugins() : ours_(std::getenv(kVariable) == nullptr) {
    if (ours_) ::setenv(kVariable, "/nonexistent", 0);
  }
  ~WithoutPlugins() {
    if (ours_) ::unsetenv(kVariable);
  }
  WithoutPlugins(const WithoutPlugins&) = delete;
  WithoutPlugins& operator=(const WithoutPlugins&) = delete;

 private:
  static constexpr const char* kVariable = "HWLOC_PLUGINS_PATH";
  const bool ours_;
};

// Creates a topology of packages, L3 caches, cores, hardware threads and NUMA nodes. A package with
// several nodes has a group for each. Other objects would only cost time.
Result<TopologyHandle> new_topology(unsigned long flags) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail_errno("cannot start hwloc", errno);
  TopologyHandle topology(raw);
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  // Without disallowed parts, cores whose node's memory is not allowed would have no node.
  hwloc_topology_set_flags(raw, flags | HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED |
                                    HWLOC_TOPOLOGY_FLAG_NO_DISTANCES |
                                    HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS);
  return topology;
}

// Returns the core of a hardware thread, or the thread itself if the machine reports no cores.
hwloc_obj_t core_of(hwloc_topology_t topology, hwloc_obj_t pu) {
  hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
  return core == nullptr ? pu : core;
}

// Returns the NUMA nodes that may hold cores, the smallest first. The memory of a GPU is a node,
// too, which hwloc places beside the nearest cores.
std::vector<hwloc_obj_t> nodes_with_cores(hwloc_topology_t topology) {
  std::vector<hwloc_obj_t> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr)
    if (node->subtype == nullptr || std::strcmp(node->subtype, "GPUMemory") != 0)
      nodes.push_back(node);
  // Cores may have fast memory, or memory on a card, beside their ordinary memory. The first node
  // is the ordinary one.
  std::ranges::sort(nodes, {}, [](hwloc_obj_t of) {
    return std::pair(hwloc_bitmap_weight(of->cpuset), of->os_index);
  });
  return nodes;
}

Core describe_core(hwloc_topology_t topology, hwloc_obj_t core,
                   const std::vector<hwloc_obj_t>& nodes) {
  Core described;
  hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core);
  if (package != nullptr) described.package = static_cast<int>(package->os_index);
  const auto node = std::ranges::find_if(nodes, [&](hwloc_obj_t of) {
    return hwloc_bitmap_isincluded(core->cpuset, of->cpuset) != 0;
  });
  if (node != nodes.end()) described.numa_node = static_cast<int>((*node)->os_index);
  hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_L3CACHE, core);
  if (cache != nullptr) described.l3_cache = static_cast<int>(cache->logical_index);
  return described;
}

// Lists the cores of the PUs that the topology and `allowed`, unless null, both allow.
std::vector<Core> list_cores(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  std::vector<Core> cores;
  const auto nodes = nodes_with_cores(topology);
  hwloc_const_bitmap_t usable = hwloc_topology_get_allowed_cpuset(topology);
  hwloc_obj_t last = nullptr;
  hwloc_obj_t pu = nullptr;
  while ((pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != nullptr) {
    if (hwloc_bitmap_isset(usable, pu->os_index) == 0) continue;
    if (allowed != nullptr && hwloc_bitmap_isset(allowed, pu->os_index) == 0) continue;
    hwloc_obj_t core = core_of(topology, pu);
    if (core != last) cores.push_back(describe_core(topology, core, nodes));
    last = core;
    auto& pus = cores.back().pus;
    const int number = static_cast<int>(pu->os_index);
    pus.insert(std::upper_bound(pus.begin(), pus.end(), number), number);
  }
  return cores;
}

// Lists the nodes of the cores, without those whose memory this process may not use, and without
// those that have none. A topology that says nothing of memory has it everywhere.
std::vector<int> list_numa_nodes(hwloc_topology_t topology, const std::vector<Core>& cores) {
  std::set<int> of_cores;
  for (const auto& core : cores) of_cores.insert(core.numa_node);
  hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_nodeset(topology);
  std::vector<int> nodes;
  std::vector<int> with_memory;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    const int number = static_cast<int>(node->os_index);
    if (!of_cores.contains(number) || hwloc_bitmap_isset(allowed, node->os_index) == 0) continue;
    nodes.push_back(number);
    if (node->attr->numanode.local_memory > 0) with_memory.push_back(number);
  }
  auto& list = with_memory.empty() ? nodes : with_memory;
  std::ranges::sort(list);
  return list;
}

// Returns the text of one piece of information on a kind of core; empty if there is none.
std::string find_info(const hwloc_info_s* infos, unsigned count, const char* name) {
  for (unsigned i = 0; i < count; ++i)
    if (std::strcmp(infos[i].name, name) == 0) return infos[i].value;
  return {};
}

long speed_of_kind(const hwloc_info_s* infos, unsigned count) {
  for (const char* name : {"LinuxCapacity", "FrequencyMaxMHz", "FrequencyBaseMHz"})
    if (const auto text = find_info(infos, count, name); !text.empty())
      return std::strtol(text.c_str(), nullptr, 10);
  return 0;
}

// Sets the kinds of cores that the file has. hwloc sorts them by speed, if it can.
void list_kinds(hwloc_topology_t topology, std::vector<Core>& cores) {
  int number = 0;
  std::optional<std::string> type;
  long fastest = 0;
  const Bitmap pus(hwloc_bitmap_alloc());
  for (int index = hwloc_cpukinds_get_nr(topology, 0) - 1; index >= 0; --index) {
    int efficiency = 0;
    unsigned count = 0;
    hwloc_info_s* infos = nullptr;
    if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(index), pus.get(), &efficiency,
                                &count, &infos, 0) != 0 ||
        efficiency < 0)
      return;
    const long speed = speed_of_kind(infos, count);
    const auto own_type = find_info(infos, count, "CoreType");
    const bool like_last =
        type && own_type == *type && speed > 0 && !is_slower_kind(speed, fastest);
    if (!like_last) {
      if (type) ++number;
      type = own_type;
      fastest = speed;
    }
    for (auto& core : cores)
      if (hwloc_bitmap_isset(pus.get(), static_cast<unsigned>(core.pus.front())) != 0)
        core.kind = number;
  }
}

std::vector<int> numbers_in(hwloc_const_bitmap_t bitmap) {
  std::vector<int> numbers;
  for (int number = hwloc_bitmap_first(bitmap); number >= 0;
       number = hwloc_bitmap_next(bitmap, number))
    numbers.push_back(number);
  return numbers;
}

// Returns the locality of a device by its node, if that is known, and the PUs near it. Some
// machines give the device's own memory as its node, and some know more than the node: the L3.
Locality locality_of(const std::vector<Core>& cores, std::optional<int> node,
                     const std::vector<int>& near) {
  const std::set<int> near_pus(near.begin(), near.end());
  std::set<int> nodes_nearby;
  Locality found{node, {}};
  std::size_t cores_nearby = 0;
  bool node_is_usable = false;
  for (const auto& core : cores) {
    node_is_usable = node_is_usable || core.numa_node == node;
    if (!near_pus.contains(core.pus.front())) continue;
    ++cores_nearby;
    nodes_nearby.insert(core.numa_node);
    found.cpus.insert(found.cpus.end(), core.pus.begin(), core.pus.end());
  }
  std::ranges::sort(found.cpus);
  if (!node_is_usable && nodes_nearby.size() == 1 && cores_nearby < cores.size())
    found.numa_node = *nodes_nearby.begin();
  const auto in_node = static_cast<std::size_t>(std::ranges::count_if(
      cores, [&](const Core& core) { return core.numa_node == found.numa_node; }));
  const bool says_more =
      in_node == 0 ? cores_nearby < cores.size()
                   : nodes_nearby == std::set<int>{*found.numa_node} && cores_nearby < in_node;
  if (!says_more) found.cpus.clear();
  return found;
}

std::map<std::string, Locality> list_pci_devices(hwloc_topology_t topology,
                                                 const std::vector<Core>& cores) {
  std::map<std::string, Locality> devices;
  hwloc_obj_t device = nullptr;
  while ((device = hwloc_get_next_pcidev(topology, device)) != nullptr) {
    hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(topology, device);
    if (parent == nullptr) continue;
    const auto& pci = device->attr->pcidev;
    std::optional<int> node;
    if (hwloc_bitmap_weight(parent->nodeset) == 1) node = hwloc_bitmap_first(parent->nodeset);
    devices.emplace(
        fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func),
        locality_of(cores, node, numbers_in(parent->cpuset)));
  }
  return devices;
}

}  // namespace

Result<Topology> live_topology(const std::filesystem::path& sysfs) {
  const WithoutPlugins guard;
  // Without the first flag hwloc's x86 part moves the calling thread to every PU in turn.
  HVD_TRY(const TopologyHandle topology,
          new_topology(HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS));
  if (hwloc_topology_load(topology.get()) != 0)
    return fail_errno("hwloc cannot read this machine's topology", errno);

  // If the affinity cannot be read, all PUs of the cgroup are used.
  const Bitmap affinity(hwloc_bitmap_alloc());
  const bool known = hwloc_get_cpubind(topology.get(), affinity.get(), HWLOC_CPUBIND_THREAD) == 0 &&
                     !hwloc_bitmap_iszero(affinity.get());
  Topology result;
  result.cores = list_cores(topology.get(), known ? affinity.get() : nullptr);
  result.numa_nodes = list_numa_nodes(topology.get(), result.cores);
  read_core_kinds(sysfs, result.cores);
  return result;
}

Result<Topology> topology_from_file(const std::filesystem::path& file) {
  const WithoutPlugins guard;
  HVD_TRY(const TopologyHandle topology, new_topology(0));
  hwloc_topology_set_type_filter(topology.get(), HWLOC_OBJ_PCI_DEVICE,
                                 HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (const auto start = read_content(file, 1); !start)
    return fail_errno(fmt::format("cannot open the topology file {}", file.string()), start.error(),
                      kExitUsage);
  if (hwloc_topology_set_xml(topology.get(), file.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0)
    return fail(fmt::format("{}: not an hwloc topology; write one with: lstopo {}", file.string(),
                            "machine.xml"),
                kExitUsage);

  Topology result;
  result.cores = list_cores(topology.get(), nullptr);
  result.numa_nodes = list_numa_nodes(topology.get(), result.cores);
  list_kinds(topology.get(), result.cores);
  result.pci_devices = list_pci_devices(topology.get(), result.cores);
  return result;
}

Locality pci_locality(const std::filesystem::path& sysfs, const std::string& address,
                      const std::vector<Core>& cores) {
  const auto device = sysfs / "bus/pci/devices" / address;
  std::istringstream file(content_of(device / "numa_node"));
  int node = -1;
  // The kernel writes -1 if the firmware does not say.
  const bool known = file >> node && node >= 0;
  return locality_of(cores, known ? std::optional<int>(node) : std::nullopt,
                     read_cpu_list(device / "local_cpulist"));
}

}  // namespace hvdrun
