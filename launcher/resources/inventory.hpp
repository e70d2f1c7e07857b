// What this machine offers a job: its name, cores, NUMA nodes and GPUs. Only this file, topology,
// cpu_quota and the vendors of gpus/ ask the machine; the rest of the folder computes from the
// value. It is for the thread that starts the program: see live_topology().
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "gpus/gpu_vendors.hpp"
#include "model/placement.hpp"

#include <filesystem>
#include <string>

namespace hvdrun {

struct LocalMachine {
  std::string name;  // local_host_name()
  HostInventory inventory;
  std::string user = {};  // whose process this is; empty if passwd does not say
};

// Where to read the inventory; tests replace these by files, doubles and made-up vendors.
struct InventorySources {
  GpuVendors gpu_vendors = hvdrun::gpu_vendors();
  std::filesystem::path sysfs = "/sys";
  std::filesystem::path cgroup_list = "/proc/self/cgroup";  // see cpu_quota()
  std::filesystem::path cgroups = "/sys/fs/cgroup";
  // A topology file to read the cores from, instead of the machine. Empty: HVD_TOPOLOGY, if set.
  std::filesystem::path topology_file;
};

// Reads the machine, in a few milliseconds; the GPUs as a program with this environment would see
// them. If there are GPUs of several vendors, the first vendor's are used, and a note names the
// others. Call it while the process has one thread (see live_topology). Errors: hwloc cannot read
// the machine, or the topology file is not one. A problem with GPUs is a note in the inventory
// instead.
Result<HostInventory> local_inventory(const Environment& environment,
                                      const InventorySources& sources = {});

// Reads the machine as local_inventory does, and its name.
Result<LocalMachine> local_machine(const Environment& environment,
                                   const InventorySources& sources = {});

}  // namespace hvdrun
