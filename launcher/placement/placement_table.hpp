// A placement for people: what --dry-run and --report-bindings print. For programs there is
// placement_json.hpp.
#pragma once

#include "model/allocation.hpp"
#include "model/placement.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Several lines, the last with its newline: what was taken and why (where the hosts come from,
// their slots, cores and GPUs), one row a rank, and the notes. Hosts of which the same is to be
// said share a line; of more than 16 hosts there is one row a kind of host and not one a rank. CPUs
// and NUMA nodes are the operating system's numbers, as taskset(1) and numactl(8) have them; "-" is
// not bound, or no GPU.
std::string placement_table(const Allocation& allocation, const Placement& placement);

// "rank 0 on n1: CPUs 0-7,64-71 (8 cores, package 0, NUMA 0), GPU 0 (NVIDIA H200, 0000:3b:00.0)",
// without newline. `host` is the rank's.
std::string bindings_line(const Host& host, const RankPlacement& rank);

// That line for every rank, in order.
std::vector<std::string> bindings_lines(const Allocation& allocation, const Placement& placement);

}  // namespace hvdrun
