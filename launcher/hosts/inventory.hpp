// What this machine offers a job: its name, cores, NUMA nodes and GPUs. The one place in hosts/
// that asks the machine; all else there is computed from the value.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "hosts/nvml.hpp"
#include "model/allocation.hpp"

#include <filesystem>
#include <string>

namespace hvdrun {

struct LocalMachine {
  std::string name;  // host_name()
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

}  // namespace hvdrun
