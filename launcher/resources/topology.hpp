// A machine's cores and NUMA nodes, read with hwloc 2 from the running machine or from a topology
// file as lstopo(1) writes it. The value holds plain numbers; hwloc stays inside.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "common/system.hpp"
#include "model/placement.hpp"
#include "resources/nvml.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct Topology {
  std::vector<Core> cores;  // by package, NUMA node, core: neighbours stand beside each other
  std::vector<int> numa_nodes;
  // PCI address to nearest NUMA node. From a file only: the running machine is asked device by
  // device (pci_numa_node), since a walk over its whole PCI tree costs milliseconds.
  std::map<std::string, int> pci_numa;
};

// The running machine, only what this process may use: its cgroup's cpuset and its own affinity
// (sched_getaffinity(2)), so that under taskset(1) or SLURM's task/affinity nothing else is seen.
//
// Takes under a millisecond on a small machine because hwloc is kept from loading its plugins,
// which open X11, OpenCL and NVML: HWLOC_PLUGINS_PATH is set during the call unless the user set
// it, and put back after it. The environment is written, so call this while the process has one
// thread.
Result<Topology> live_topology();

// All of a saved machine. Error: no such file, or not an hwloc topology.
Result<Topology> topology_from_file(const std::filesystem::path& file);

// The NUMA node next to a PCI device ("0000:3b:00.0"), from sysfs mounted at `sysfs`. None when the
// kernel does not know it, as on a machine with one node.
std::optional<int> pci_numa_node(const std::filesystem::path& sysfs, const std::string& address);

// What this machine offers a job: its name, cores, NUMA nodes and GPUs. The one place in hosts/
// that asks the machine; all else there is computed from the value.

struct LocalMachine {
  std::string name;  // local_host_name()
  HostInventory inventory;
};

// Where to ask; tests put files and a double of NVML here.
struct InventorySources {
  std::string nvml_library = kNvmlLibrary;
  std::filesystem::path sysfs = "/sys";
  // Read the cores from this topology file and not from the machine. Empty: HVD_TOPOLOGY, when set.
  std::filesystem::path topology_file;
};

// Reads the machine, in a few milliseconds; the GPUs as a program with this environment would see
// them. Call it while the process has one thread (see live_topology). Errors: hwloc cannot read the
// machine, or the topology file is none. Trouble with GPUs is a note in the inventory, no error.
Result<HostInventory> local_inventory(const Environment& environment,
                                      const InventorySources& sources = {});

// The same with the machine's name.
Result<LocalMachine> local_machine(const Environment& environment,
                                   const InventorySources& sources = {});

// Which GPUs a CUDA program started here would see, in CUDA's order: a pure function of
// CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and what NVML says, without CUDA.
//
// CUDA_VISIBLE_DEVICES, when set, decides. Its rules are those of the CUDA Programming Guide, "CUDA
// Environment Variables": entries are ordinals, GPU UUIDs as nvidia-smi -L prints them, of which a
// beginning that no other GPU shares is enough, or MIG devices (MIG-UUID, or in the older form
// MIG-GPU-UUID/instance/compute instance); CUDA stops at the first entry that names no device, so
// that an empty value, -1 and NoDevFiles all mean none. Not in the guide, but what drivers do: the
// first entry fixes the form of all that follow, an ordinal is the number that its entry begins
// with, and a device that is named twice leaves none visible.
//
// When it is unset NVML lists the devices. NVML counts by PCI address, CUDA fastest first unless
// CUDA_DEVICE_ORDER=PCI_BUS_ID; so an ordinal can be matched with a device only under that setting
// or when all GPUs are of one kind. docs/decisions/0005-gpus-without-cuda.md has the consequences.

struct GpuList {
  std::vector<Gpu> gpus;    // numa_node is left open: NVML does not know it
  bool needs_list = false;  // see HostInventory::gpus_need_list
  std::string source;
  std::vector<std::string> notes;
};

// Whether CUDA_VISIBLE_DEVICES names a device that NVML could tell about; without one (it is empty,
// -1, …) there is no need to open NVML.
bool names_devices(const std::optional<std::string>& cuda_visible_devices);

GpuList visible_gpus(const std::optional<std::string>& cuda_visible_devices, bool pci_bus_order,
                     const NvmlScan& nvml);

}  // namespace hvdrun
