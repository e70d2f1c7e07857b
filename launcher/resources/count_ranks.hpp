// How many ranks run on which host. Pure functions, for any thread.
#pragma once

#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// The most ranks on one host. Above it process ids run out: kernel.pid_max is often 4194304, but
// 32768 by default on small machines. And a typing error should not start a million processes.
inline constexpr int kMaxRanksPerHost = 100000;

// The most ranks of a job.
inline constexpr int kMaxRanks = 1000000;

struct RankCounts {
  std::vector<int> by_host;  // in the allocation's order; may be 0
  std::vector<int> spares;   // the same: slots beside those of the ranks, for --spares
  // Hosts whose slots must be known before ranks can be counted; then by_host is empty.
  std::vector<std::string> to_ask;
};

// Counts the ranks of each host. The number of ranks is -np; else --ranks-per-host times the hosts;
// else one per slot. With --map-by slot, the ranks fill the hosts in order, up to the slots of each
// (or to --ranks-per-host); the rest is dealt out to the hosts that may take more. With --map-by
// node, or --nnodes, they are dealt out one to each host in turn, up to the same numbers.
//
// Limits of a host: the slots that the user gave, and its GPUs unless --gpu-bind none.
// --oversubscribe lifts both, but not a hostfile's max_slots.
//
// Errors (kExitUsage) say what the hosts have and what to type.
Result<RankCounts> count_ranks(const JobSpec& spec, const Allocation& allocation);

// Returns the number of the host's GPUs; without an inventory, the number that the scheduler says.
int count_gpus(const Host& host);

// Returns whether ranks on this host are given GPUs.
bool ranks_get_gpus(const JobSpec& spec, const Host& host);

}  // namespace hvdrun
