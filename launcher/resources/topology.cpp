#include "resources/topology.hpp"

#include "base/system.hpp"
#include "common/file_content.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
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

// Creates a topology of packages, cores, hardware threads and NUMA nodes. Caches and the like would
// only cost time.
Result<TopologyHandle> new_topology(unsigned long flags) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail_errno("cannot start hwloc", errno);
  TopologyHandle topology(raw);
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_flags(raw, flags | HWLOC_TOPOLOGY_FLAG_NO_DISTANCES |
                                    HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
                                    HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
  return topology;
}

// Returns the core of a hardware thread, or the thread itself if the machine reports no cores.
hwloc_obj_t core_of(hwloc_topology_t topology, hwloc_obj_t pu) {
  hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
  return core == nullptr ? pu : core;
}

Core describe_core(hwloc_topology_t topology, hwloc_obj_t core) {
  Core described;
  hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core);
  if (package != nullptr) described.package = static_cast<int>(package->os_index);
  // A core may have several local nodes (fast memory beside ordinary memory). The first is
  // ordinary.
  const int node = hwloc_bitmap_first(core->nodeset);
  if (node >= 0) described.numa_node = node;
  return described;
}

// Lists the cores of the allowed PUs. `allowed` is null if all are.
std::vector<Core> list_cores(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  std::vector<Core> cores;
  hwloc_obj_t last = nullptr;
  hwloc_obj_t pu = nullptr;
  while ((pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != nullptr) {
    if (allowed != nullptr && !hwloc_bitmap_isset(allowed, pu->os_index)) continue;
    hwloc_obj_t core = core_of(topology, pu);
    if (core != last) cores.push_back(describe_core(topology, core));
    last = core;
    auto& pus = cores.back().pus;
    const int number = static_cast<int>(pu->os_index);
    pus.insert(std::upper_bound(pus.begin(), pus.end(), number), number);
  }
  return cores;
}

std::vector<int> list_numa_nodes(hwloc_topology_t topology) {
  std::vector<int> nodes;
  hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_nodeset(topology);
  for (int node = hwloc_bitmap_first(allowed); node >= 0; node = hwloc_bitmap_next(allowed, node))
    nodes.push_back(node);
  return nodes;
}

std::map<std::string, int> list_pci_devices(hwloc_topology_t topology) {
  std::map<std::string, int> nearest;
  hwloc_obj_t device = nullptr;
  while ((device = hwloc_get_next_pcidev(topology, device)) != nullptr) {
    hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(topology, device);
    if (parent == nullptr || hwloc_bitmap_weight(parent->nodeset) != 1) continue;
    const auto& pci = device->attr->pcidev;
    nearest.emplace(
        fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func),
        hwloc_bitmap_first(parent->nodeset));
  }
  return nearest;
}

}  // namespace

Result<Topology> live_topology() {
  const WithoutPlugins guard;
  // Without this flag hwloc's x86 part moves the calling thread to every PU in turn.
  HVD_TRY(const TopologyHandle topology, new_topology(HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING));
  if (hwloc_topology_load(topology.get()) != 0)
    return fail_errno("hwloc cannot read this machine's topology", errno);

  // If the affinity cannot be read, all PUs of the cgroup are used.
  const Bitmap affinity(hwloc_bitmap_alloc());
  const bool known = hwloc_get_cpubind(topology.get(), affinity.get(), HWLOC_CPUBIND_THREAD) == 0 &&
                     !hwloc_bitmap_iszero(affinity.get());
  Topology result;
  result.cores = list_cores(topology.get(), known ? affinity.get() : nullptr);
  result.numa_nodes = list_numa_nodes(topology.get());
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
  result.numa_nodes = list_numa_nodes(topology.get());
  result.pci_numa = list_pci_devices(topology.get());
  return result;
}

std::optional<int> pci_numa_node(const std::filesystem::path& sysfs, const std::string& address) {
  std::istringstream file(content_of(sysfs / "bus/pci/devices" / address / "numa_node"));
  int node = -1;
  // The kernel writes -1 if the firmware does not say.
  if (!(file >> node) || node < 0) return std::nullopt;
  return node;
}

}  // namespace hvdrun
