// Where a job may run and where it does: the hosts that it may use, with what they offer
// (Allocation), and which rank runs where (Placement). Plain values, made by resources/.
//
// PUs and NUMA nodes have the operating system's numbers, as in sched_setaffinity(2) and
// set_mempolicy(2). A PU is a hardware thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct Core {
  int package = 0;
  int numa_node = 0;     // the node that holds its PUs; never one that has only memory
  std::vector<int> pus;  // those that this process may use, ascending; never empty
  int l3_cache = -1;     // equal for the cores that share one; -1: not known
  int kind = 0;          // a faster kind has a smaller number
};

// What is near a device.
struct Locality {
  std::optional<int> numa_node;  // nullopt: not known
  std::vector<int> cpus = {};    // PUs, ascending: fewer than the node's, if not empty
};

struct Gpu {
  std::string visible;      // its entry in GpuVariables::visible: a number, a UUID or another name
  std::string uuid;         // "GPU-…"; empty if not known
  std::string pci_address;  // "0000:3b:00.0"; empty if not known
  std::string name;         // "NVIDIA H200"; empty if not known
  std::uint64_t memory_bytes = 0;
  std::optional<int> numa_node;     // the nearest; nullopt if not known
  std::vector<int> near_cpus = {};  // as Locality::cpus
  std::string watched_as = {};      // see watched_name()
};

// Returns the name by which GpuVendor::watch finds a GPU; empty if it has none.
inline const std::string& watched_name(const Gpu& gpu) {
  return gpu.watched_as.empty() ? gpu.uuid : gpu.watched_as;
}

struct HostInventory {
  std::vector<Core> cores;          // by package, NUMA node, core; only what this process may use
  std::vector<int> numa_nodes;      // those of `cores` whose memory this process may use
  std::optional<double> cpu_quota;  // how many processors its cgroup may use; nullopt: no limit
  std::string gpu_vendor;           // GpuVendor::name; empty without GPUs
  std::vector<Gpu> gpus;            // in the order of the vendor's runtime: a rank calls gpus[i] i
  // The ranks' variable must list all of `gpus`, since the runtime's own order is not known: with
  // CUDA, the variable is unset, and there are MIG devices, or several kinds of GPU without
  // CUDA_DEVICE_ORDER=PCI_BUS_ID.
  bool gpus_need_list = false;
  // Why each rank must see one GPU alone, whatever --gpu-bind says; empty: it may see all.
  std::string single_because;
  // How the GPUs were found, for --verbose: "NVML", "CUDA_VISIBLE_DEVICES", "no NVIDIA driver".
  std::string gpu_source;
  std::string topology_file;       // the cores were read from this file; empty: from the machine
  std::vector<std::string> notes;  // for the user, one line each
};

class Scheduler;

// What a scheduler's job gives one host. It is used until the host's inventory is known.
struct JobShare {
  const Scheduler* scheduler = nullptr;  // whose job it is; null: the host is in none
  std::optional<int> tasks;  // the tasks asked for on this host; nullopt: no number was asked for
  std::string tasks_source;  // "SLURM_NTASKS"
  std::optional<int> cpus_per_task;
  std::string cpus_per_task_source;  // "SLURM_CPUS_PER_TASK"
  std::optional<int> cpus;           // hardware threads
  std::string cpus_source;           // "SLURM_JOB_CPUS_PER_NODE"
  std::optional<int> gpus;           // that the job's ranks use; nullopt: not known
  // That the job has there. More than `gpus`, if CUDA_VISIBLE_DEVICES chooses some of them.
  std::optional<int> given_gpus;
  std::string gpus_source;  // "SLURM_GPUS_PER_NODE"
};

// One host. The inventory of this machine is known at once, that of another host after its agent
// has reported it (slots.hpp: take_inventory). Until then its slots are known only from the user or
// from a scheduler.
struct Host {
  std::string name;         // for people and ranks: this machine's host name, or as it was given
  std::string address;      // as it was given: what ssh connects to, or the scheduler's name of it
  std::string user;         // for ssh; empty: from the user's ssh configuration
  std::optional<int> port;  // of its ssh server; nullopt: -p, or the ssh configuration
  bool is_this_machine = false;

  std::optional<int> slots;      // nullopt: not known before the host is asked
  std::string slots_source;      // "4 GPUs", "SLURM_NTASKS", "2 cores", "-H", "hosts.txt:3"
  bool slots_fixed = false;      // the user's number: more ranks only with --oversubscribe
  std::optional<int> max_slots;  // --oversubscribe does not exceed it
  JobShare share;

  std::optional<HostInventory> inventory;  // nullopt: not reported yet
};

// Where the hosts come from.
enum class HostSource {
  this_machine,
  request,  // -H
  hostfile,
  scheduler,  // its job has them
};

// What starts the agents of other hosts.
enum class StartedBy { ssh, srun };

struct Allocation {
  HostSource from = HostSource::this_machine;
  StartedBy started_by = StartedBy::ssh;
  std::string source;  // "-H", "hosts.txt", "SLURM job 7", "this machine": for people
  std::vector<Host> hosts;
  std::vector<std::string> reasons;  // what was chosen and why: for --dry-run and --verbose
  std::vector<std::string> notes;    // what the user should know in any case
};

// The variables by which a vendor's runtime chooses and numbers GPUs.
struct GpuVariables {
  std::string visible = {};    // "CUDA_VISIBLE_DEVICES"; its value lists Gpu::visible, with commas
  std::string order = {};      // "CUDA_DEVICE_ORDER"; empty: the order is that of PCI addresses
  std::string pci_order = {};  // the value of `order` for PCI addresses: "PCI_BUS_ID"
};

struct RankPlacement {
  int rank = 0;
  int local_rank = 0;
  int cross_rank = 0;  // Horovod's: position among the ranks with the same local rank
  int cross_size = 1;
  std::optional<int> gpu;  // index in the host's inventory; nullopt without GPUs
  // The number of the GPU that the rank is to use, among those that it sees. nullopt without GPUs.
  std::optional<int> device;
  int devices = 0;  // the GPUs that it sees
  // Its GpuVariables::visible; nullopt: the caller's value.
  std::optional<std::string> visible_devices;
  // It has numbers in the order of PCI addresses, so the rank's runtime must count in that order.
  bool in_pci_order = false;
  std::string device_name;  // for people: "GPU 3 (NVIDIA H200, 0000:3b:00.0)"; empty without GPUs
  std::vector<int> cpus;    // PUs it is bound to, ascending; empty: not bound
  std::vector<int> numa_nodes;  // that its memory comes from first; empty: as the kernel likes
};

struct HostPlacement {
  std::string host;
  std::vector<RankPlacement> ranks;  // by local rank
  // The host's inventory is not known yet: neither are its cores, and its GPUs are what the
  // scheduler says.
  bool is_provisional = false;
  // There are more ranks than cores, or than processors that the host's cgroup may use.
  bool shares_cores = false;
  // Slots for processes that wait for a rank's place (--spares): their local ranks follow.
  std::vector<RankPlacement> spares = {};
  GpuVariables gpu_variables = {};  // of the vendor whose GPUs the ranks have
};

struct Placement {
  int size = 0;  // 0 while hosts are to be asked
  // By host index. Those without ranks have spares, and come last.
  std::vector<HostPlacement> hosts;
  // Hosts that must be asked for their slots before any rank can be placed; then `hosts` is empty.
  std::vector<std::string> to_ask;
  std::vector<std::string> notes;  // one line each: "4 ranks on n1 share 2 cores"
  std::size_t hosts_with_ranks() const {
    std::size_t count = 0;
    while (count < hosts.size() && !hosts[count].ranks.empty()) ++count;
    return count;
  }
  // Returns whether all hosts with ranks have the same number of them.
  bool homogeneous() const {
    for (const auto& host : hosts)
      if (!host.ranks.empty() && host.ranks.size() != hosts.front().ranks.size()) return false;
    return true;
  }
};

}  // namespace hvdrun
