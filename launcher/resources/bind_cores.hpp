// Which cores of a host each of its ranks is bound to: a pure function.
//
// `automatic` must never be worse than no binding, whatever the program does. So it shares out all
// cores of the allocation, in equal parts (they differ by one core at most), and leaves none idle:
// a rank takes cores of its GPU's NUMA node first, and where these do not suffice for an equal part
// (all GPUs sit on one package, say), the rest comes from the other nodes. It never picks a single
// core out of many, so two jobs on one machine do not pile up on its first cores. It binds nothing
// when there are more ranks than cores.
//
// `core` does the same, but keeps to the GPU's NUMA node strictly: the ranks near a node share its
// cores evenly, and cores near no rank's GPU stay idle. It is an error when cores are too few.
//
// `numa` binds to whole NUMA nodes: the GPU's, or without GPUs those that the rank's equal part of
// the cores lies in. Ranks share nodes.
//
// --cpus-per-rank K makes the part K cores instead (`automatic` and `core`). A core's hardware
// threads always go together. A host's only rank is never bound, unless `core` and K both say so.
#pragma once

#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct CoreBinding {
  // By local rank: positions in inventory.cores, ascending; empty: not bound.
  std::vector<std::vector<int>> cores;
  std::vector<std::string> notes;  // about the host: --cpus-per-rank that could not be had
};

// `near` holds by local rank the NUMA node of the rank's GPU; none without GPU, or where unknown.
// Error (kExitUsage): `core` was asked for and the host has too few cores.
// `host` is its name, for the error.
Result<CoreBinding> bind_cores(const HostInventory& inventory, const std::string& host,
                               const std::vector<std::optional<int>>& near, BindTo bind_to,
                               std::optional<int> cpus_per_rank);

}  // namespace hvdrun
