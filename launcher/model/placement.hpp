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

// What SLURM's variables say about a host, before anybody has looked at it.
struct SlurmShare {
  std::optional<int> tasks;  // the tasks that were asked for there; none: no count was asked for
  std::string tasks_source;  // "SLURM_NTASKS"
  std::optional<int> cpus_per_task;
  std::optional<int> cpus;  // hardware threads
  std::optional<int> gpus;  // none: the variables do not say
  std::string gpus_source;  // "SLURM_GPUS_PER_NODE"
};

// One host. What it offers is known at once for this machine; of another one only after its agent
// has answered (slots.hpp: take_inventory). Until then its slots may be known, because
// the user or SLURM says them, or not.
struct Host {
  std::string name;         // for people and ranks: this machine's own name, else as it was given
  std::string address;      // as it was given: what ssh connects to, SLURM's name of it
  std::string user;         // for ssh; empty: as the user's ssh configuration has it
  std::optional<int> port;  // of its ssh server; likewise
  bool is_this_machine = false;

  std::optional<int> slots;      // none: not known before the host is asked
  std::string slots_source;      // "4 GPUs", "SLURM_NTASKS", "2 cores", "-H", "hosts.txt:3"
  bool slots_fixed = false;      // the user's number: more ranks only with --oversubscribe
  std::optional<int> max_slots;  // not even then
  SlurmShare slurm;

  std::optional<HostInventory> inventory;  // none: nobody has looked yet
};

// Where the hosts come from, which decides how agents get there.
enum class HostSource {
  this_machine,
  request,  // -H
  hostfile,
  slurm,
};

struct Allocation {
  HostSource from = HostSource::this_machine;
  std::string source;  // "-H", "hosts.txt", "SLURM job 7", "this machine": for people
  std::vector<Host> hosts;
  std::vector<std::string> reasons;  // what was taken and why: for --dry-run and --verbose
  std::vector<std::string> notes;    // what the user should know in any case
};

// Which rank goes where, on which GPU and cores: a plain value, made by placement/.

struct RankPlacement {
  int rank = 0;
  int local_rank = 0;
  int cross_rank = 0;  // Horovod's: position among the ranks with the same local rank
  int cross_size = 1;
  std::optional<int> gpu;  // its device's position in the host's inventory; none without GPUs
  // The CUDA ordinal that the rank is to use, in the numbering that it sees. None without GPUs.
  std::optional<int> device;
  // CUDA_VISIBLE_DEVICES of the rank; none: left as the caller has it.
  std::optional<std::string> visible_devices;
  std::string device_name;      // for people: "GPU 3 (NVIDIA H200, 0000:3b:00.0)"; empty without
  std::vector<int> cpus;        // PUs it is bound to, ascending; empty: not bound
  std::vector<int> numa_nodes;  // its memory comes from these; empty: not bound
};

struct HostPlacement {
  std::string host;
  std::vector<RankPlacement> ranks;  // by local rank
  // Nobody has looked at the host yet: its cores are not known, and its GPUs are what SLURM says.
  bool is_provisional = false;
};

struct Placement {
  int size = 0;                      // 0 while hosts are to be asked
  std::vector<HostPlacement> hosts;  // by host index; none is empty
  // Hosts that must be asked for their slots before any rank can be placed; then `hosts` is empty.
  std::vector<std::string> to_ask;
  std::vector<std::string> notes;  // one line each: "4 ranks on n1 share 2 cores"
  bool homogeneous() const {
    for (const auto& host : hosts)
      if (host.ranks.size() != hosts.front().ranks.size()) return false;
    return true;
  }
};

}  // namespace hvdrun
