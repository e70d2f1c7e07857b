#include "resources/topology.hpp"

#include "base/system.hpp"
#include "common/system.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string_view>
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

// Points hwloc's search for plugins at nothing while it lives, unless the user chose a place.
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

// Packages, cores, hardware threads and NUMA nodes: caches and the like only cost time.
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

// The core of a hardware thread; the thread itself where the machine tells of no cores.
hwloc_obj_t core_of(hwloc_topology_t topology, hwloc_obj_t pu) {
  hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
  return core == nullptr ? pu : core;
}

Core describe_core(hwloc_topology_t topology, hwloc_obj_t core) {
  Core described;
  hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core);
  if (package != nullptr) described.package = static_cast<int>(package->os_index);
  // A core may have several local nodes (fast memory beside the ordinary): the first is ordinary.
  const int node = hwloc_bitmap_first(core->nodeset);
  if (node >= 0) described.numa_node = node;
  return described;
}

// `allowed` is null when all PUs count.
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
  return visible_gpus(visible, pci_bus_order, nvml);
}

std::optional<int> nearest_node(const Gpu& gpu, const Topology& topology, bool from_file,
                                const InventorySources& sources) {
  if (gpu.pci_address.empty()) return std::nullopt;
  if (!from_file) return pci_numa_node(sources.sysfs, gpu.pci_address);
  const auto found = topology.pci_numa.find(gpu.pci_address);
  if (found == topology.pci_numa.end()) return std::nullopt;
  return found->second;
}

enum class Form { ordinal, gpu_uuid, mig, none };

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> split_entries(std::string_view text) {
  std::vector<std::string_view> entries;
  for (;;) {
    const auto comma = text.find(',');
    entries.push_back(trim(text.substr(0, comma)));
    if (comma == std::string_view::npos) return entries;
    text.remove_prefix(comma + 1);
  }
}

std::optional<int> ordinal_of(std::string_view entry) {
  int ordinal = 0;
  const auto [stop, error] = std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
  if (error != std::errc() || ordinal < 0) return std::nullopt;
  return ordinal;
}

Form form_of(std::string_view entry) {
  if (entry.starts_with("GPU-")) return Form::gpu_uuid;
  if (entry.starts_with("MIG-")) return Form::mig;
  return ordinal_of(entry) ? Form::ordinal : Form::none;
}

bool any_mig(const NvmlScan& nvml) {
  return std::any_of(nvml.gpus.begin(), nvml.gpus.end(),
                     [](const NvmlGpu& gpu) { return gpu.mig_enabled; });
}

bool all_of_one_kind(const NvmlScan& nvml) {
  return std::all_of(nvml.gpus.begin(), nvml.gpus.end(),
                     [&](const NvmlGpu& gpu) { return gpu.name == nvml.gpus.front().name; });
}

Gpu described_as(std::string visible, const NvmlGpu& gpu) {
  Gpu described;
  described.visible = std::move(visible);
  described.uuid = gpu.uuid;
  described.pci_address = gpu.pci_address;
  described.name = gpu.name;
  described.memory_bytes = gpu.memory_bytes;
  return described;
}

Gpu described_as(std::string visible, const NvmlGpu& parent, const NvmlMigDevice& mig) {
  Gpu described = described_as(std::move(visible), parent);
  described.uuid = mig.uuid;
  described.name = mig.name;
  described.memory_bytes = mig.memory_bytes;
  return described;
}

Gpu undescribed(std::string_view visible) {
  Gpu gpu;
  gpu.visible = visible;
  return gpu;
}

// The device of one entry; none when it names no device here, which is where CUDA stops. The second
// of the pair is what tells it from others, to find a device that is named twice.
using Match = std::optional<std::pair<Gpu, std::string>>;

Match match_ordinal(std::string_view entry, bool pci_bus_order, const NvmlScan& nvml) {
  const auto ordinal = ordinal_of(entry);
  if (!ordinal) return std::nullopt;
  const std::string key = std::to_string(*ordinal);
  // With MIG, CUDA counts instances, and which is which is not documented.
  if (!nvml.loaded || any_mig(nvml)) return {{undescribed(entry), key}};
  if (static_cast<std::size_t>(*ordinal) >= nvml.gpus.size()) return std::nullopt;
  if (!pci_bus_order && !all_of_one_kind(nvml)) return {{undescribed(entry), key}};
  return {{described_as(std::string(entry), nvml.gpus[static_cast<std::size_t>(*ordinal)]), key}};
}

Match match_gpu_uuid(std::string_view entry, const NvmlScan& nvml) {
  if (!nvml.loaded) return {{undescribed(entry), std::string(entry)}};
  const NvmlGpu* found = nullptr;
  for (const auto& gpu : nvml.gpus) {
    if (!gpu.uuid.starts_with(entry)) continue;
    if (found != nullptr) return std::nullopt;  // the beginning of several
    found = &gpu;
  }
  if (found == nullptr) return std::nullopt;
  return {{described_as(std::string(entry), *found), found->uuid}};
}

Match match_mig(std::string_view entry, const NvmlScan& nvml) {
  const std::string text(entry);
  if (!nvml.loaded) return {{undescribed(entry), text}};
  const auto slash = entry.find('/');
  for (const auto& gpu : nvml.gpus) {
    if (slash != std::string_view::npos && "MIG-" + gpu.uuid == entry.substr(0, slash))
      return {{described_as(text, gpu), text}};
    for (const auto& mig : gpu.mig_devices)
      if (mig.uuid == entry) return {{described_as(text, gpu, mig), text}};
  }
  return std::nullopt;
}

Match match_entry(std::string_view entry, Form form, bool pci_bus_order, const NvmlScan& nvml) {
  if (form_of(entry) != form) return std::nullopt;
  switch (form) {
    case Form::ordinal:
      return match_ordinal(entry, pci_bus_order, nvml);
    case Form::gpu_uuid:
      return match_gpu_uuid(entry, nvml);
    case Form::mig:
      return match_mig(entry, nvml);
    case Form::none:
      break;
  }
  return std::nullopt;
}

// -1, NoDevFiles and an empty value are how one says "none": nothing to remark on.
bool is_meant_as_end(std::string_view entry) {
  return entry.empty() || entry == "-1" || entry == "NoDevFiles";
}

GpuList from_variable(const std::string& value, bool pci_bus_order, const NvmlScan& nvml) {
  GpuList list;
  list.source = fmt::format("CUDA_VISIBLE_DEVICES={}", value);
  const auto entries = split_entries(value);
  const Form form = form_of(entries.front());
  std::vector<std::string> seen;
  for (const auto entry : entries) {
    auto match = match_entry(entry, form, pci_bus_order, nvml);
    if (!match) {
      if (!is_meant_as_end(entry))
        list.notes.push_back(
            fmt::format("CUDA_VISIBLE_DEVICES={}: \"{}\" names no GPU here, and CUDA stops at it",
                        value, entry));
      break;
    }
    if (std::find(seen.begin(), seen.end(), match->second) != seen.end()) {
      list.notes.push_back(
          fmt::format("CUDA_VISIBLE_DEVICES={}: \"{}\" names a GPU for the second time, and CUDA "
                      "then sees none",
                      value, entry));
      list.gpus.clear();
      break;
    }
    seen.push_back(std::move(match->second));
    list.gpus.push_back(std::move(match->first));
  }
  return list;
}

GpuList from_mig(const NvmlScan& nvml) {
  GpuList list;
  list.source = "NVML";
  for (const auto& gpu : nvml.gpus) {
    if (!gpu.mig_enabled) list.gpus.push_back(described_as(gpu.uuid, gpu));
    for (const auto& mig : gpu.mig_devices) list.gpus.push_back(described_as(mig.uuid, gpu, mig));
    if (gpu.mig_enabled && gpu.mig_devices.empty())
      list.notes.push_back(
          fmt::format("the GPU at {} is in MIG mode without a MIG device, so CUDA cannot use it",
                      gpu.pci_address));
  }
  list.needs_list = !list.gpus.empty();
  return list;
}

GpuList from_nvml(bool pci_bus_order, const NvmlScan& nvml) {
  if (any_mig(nvml)) return from_mig(nvml);
  GpuList list;
  list.source = "NVML";
  list.needs_list = !pci_bus_order && !all_of_one_kind(nvml);
  for (const auto& gpu : nvml.gpus)
    list.gpus.push_back(
        described_as(list.needs_list ? gpu.uuid : std::to_string(list.gpus.size()), gpu));
  return list;
}

}  // namespace

Result<Topology> live_topology() {
  const WithoutPlugins guard;
  // Without this flag hwloc's x86 part moves the calling thread to every PU in turn.
  HVD_TRY(const TopologyHandle topology, new_topology(HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING));
  if (hwloc_topology_load(topology.get()) != 0)
    return fail_errno("hwloc cannot read this machine's topology", errno);

  // Where the affinity cannot be read, all PUs of the cgroup count.
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
  if (!std::ifstream(file))
    return fail_errno(fmt::format("cannot open the topology file {}", file.string()), errno,
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
  std::ifstream file(sysfs / "bus/pci/devices" / address / "numa_node");
  int node = -1;
  // The kernel writes -1 where firmware did not say.
  if (!(file >> node) || node < 0) return std::nullopt;
  return node;
}

Result<HostInventory> local_inventory(const Environment& environment,
                                      const InventorySources& sources) {
  const auto file = topology_file(environment, sources);
  HVD_TRY(Topology topology, file.empty() ? live_topology() : topology_from_file(file));
  GpuList gpus = find_gpus(environment, sources);

  HostInventory inventory;
  inventory.gpus = std::move(gpus.gpus);
  for (auto& gpu : inventory.gpus)
    gpu.numa_node = nearest_node(gpu, topology, !file.empty(), sources);
  inventory.gpus_need_list = gpus.needs_list;
  inventory.gpu_source = std::move(gpus.source);
  inventory.notes = std::move(gpus.notes);
  inventory.cores = std::move(topology.cores);
  inventory.numa_nodes = std::move(topology.numa_nodes);
  inventory.topology_file = file.string();
  return inventory;
}

Result<LocalMachine> local_machine(const Environment& environment,
                                   const InventorySources& sources) {
  HVD_TRY(HostInventory inventory, local_inventory(environment, sources));
  return LocalMachine{local_host_name(), std::move(inventory)};
}

bool names_devices(const std::optional<std::string>& cuda_visible_devices) {
  return !cuda_visible_devices ||
         form_of(split_entries(*cuda_visible_devices).front()) != Form::none;
}

GpuList visible_gpus(const std::optional<std::string>& cuda_visible_devices, bool pci_bus_order,
                     const NvmlScan& nvml) {
  if (cuda_visible_devices) return from_variable(*cuda_visible_devices, pci_bus_order, nvml);
  if (nvml.loaded) return from_nvml(pci_bus_order, nvml);
  GpuList list;
  list.source = nvml.problem;
  if (nvml.broken) list.notes.push_back(nvml.problem + "; no GPU is used");
  return list;
}

}  // namespace hvdrun
