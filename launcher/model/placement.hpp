// Which rank goes where, on which GPU and cores: a plain value, made by placement/.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

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
