// A placement for people: what --dry-run and --report-bindings print. For programs there is
// placement_json. Pure functions, for any thread. They cannot fail.
#pragma once

#include "model/placement.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns several lines, each with its newline: what was chosen and why (the source of the hosts,
// their slots, cores and GPUs), one row per rank, and the notes. Hosts with the same description
// share a line. With more than 16 hosts there is one row per kind of host instead of one per rank.
// CPUs and NUMA nodes are the operating system's numbers, as in taskset(1) and numactl(8). "-"
// means not bound, or no GPU.
std::string placement_table(const Allocation& allocation, const Placement& placement);

// Returns one line per rank, in order, without newlines: "rank 0 on n1: CPUs 0-7,64-71 (8 cores,
// package 0, NUMA 0), GPU 0 (NVIDIA H200, 0000:3b:00.0)".
std::vector<std::string> bindings_lines(const Allocation& allocation, const Placement& placement);

}  // namespace hvdrun
