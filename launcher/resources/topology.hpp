// A machine's cores and NUMA nodes, read with hwloc 2 from the running machine or from a topology
// file as lstopo(1) writes it. The value holds plain numbers; hwloc stays inside.
#pragma once

#include "base/result.hpp"
#include "model/placement.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hvdrun {

struct Topology {
  std::vector<Core> cores;      // by package, NUMA node, core, so that neighbours are adjacent
  std::vector<int> numa_nodes;  // as HostInventory::numa_nodes
  // PCI address to what is near. From a file only. On the running machine pci_locality asks for
  // single devices, since a walk over its whole PCI tree costs milliseconds.
  std::map<std::string, Locality> pci_devices;
};

// Reads the running machine, only what this process may use: its cgroup's cpuset and its own
// affinity (sched_getaffinity(2)). So under taskset(1) or SLURM's task/affinity it sees no more.
// Kinds of cores come from sysfs mounted at `sysfs` (see core_kinds.hpp).
//
// Takes under a millisecond on a small machine, because hwloc is kept from loading its plugins,
// which open X11, OpenCL and NVML: HWLOC_PLUGINS_PATH is set during the call unless the user set
// it. Since this writes the environment, call it while the process has one thread.
Result<Topology> live_topology(const std::filesystem::path& sysfs = "/sys");

// Reads a saved machine, only what its file allows (`lstopo --disallowed` keeps the rest). Writes
// the environment as live_topology does. Error: no such file, or not an hwloc topology.
Result<Topology> topology_from_file(const std::filesystem::path& file);

// Returns what is near a PCI device ("0000:3b:00.0"), from sysfs mounted at `sysfs`. The node is
// unknown if the kernel does not know it, as on a machine with one node.
Locality pci_locality(const std::filesystem::path& sysfs, const std::string& address,
                      const std::vector<Core>& cores);

}  // namespace hvdrun
