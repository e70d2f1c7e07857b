// The hosts a job may use and what they offer: a plain value, made by hosts/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Numbers here are the operating system's: PU and NUMA node indices as in sched_setaffinity(2) and
// set_mempolicy(2).

struct Core {
  int package = 0;
  int numa_node = 0;
  std::vector<int> pus;  // hardware threads that this process may use, ascending; never empty
};

struct Gpu {
  std::string visible;      // its entry in CUDA_VISIBLE_DEVICES: an ordinal, a UUID or a MIG name
  std::string uuid;         // "GPU-…"; empty when nothing described the device
  std::string pci_address;  // "0000:3b:00.0"; empty likewise
  std::string name;         // "NVIDIA H200"; empty likewise
  std::uint64_t memory_bytes = 0;
  std::optional<int> numa_node;  // the nearest; none when unknown
};

struct HostInventory {
  std::vector<Core> cores;  // by package, NUMA node, core; only what this process may use
  std::vector<int> numa_nodes;
  std::vector<Gpu> gpus;  // in CUDA's order: position i is the device that a rank calls i
  // The ranks need CUDA_VISIBLE_DEVICES to list all of `gpus`, since CUDA's own order of them is
  // not known: several kinds of GPU, CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER both unset.
  bool gpus_need_list = false;
  // How the GPUs were found ("NVML", "CUDA_VISIBLE_DEVICES", "no NVIDIA driver"), for --verbose.
  std::string gpu_source;
  std::string topology_file;       // where the cores were read from instead of this machine
  std::vector<std::string> notes;  // for the user, one line each
};

struct Host {
  std::string name;
  int slots = 0;
  std::string slots_source;  // "4 GPUs", "SLURM_NTASKS", "2 cores", "-H"
  bool slots_fixed = false;  // asked for by number with -H: more ranks only with --oversubscribe
  HostInventory inventory;
};

struct Allocation {
  std::string source;  // "-H", "this machine": what was taken, for --dry-run and --verbose
  std::vector<Host> hosts;
};

}  // namespace hvdrun
