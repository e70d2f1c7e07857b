// Which cores of a host each of its ranks is bound to. A pure function, for any thread.
//
// `automatic` must never be worse than no binding, whatever the program does. So it divides all
// cores of the allocation into equal parts (they differ by one core at most), and leaves none idle.
// A rank gets cores of its GPU's NUMA node first. If these do not suffice for an equal part, for
// example because all GPUs are on one package, the rest comes from the other nodes. It never picks
// a single core out of many, so two jobs on one machine do not pile up on its first cores. It binds
// nothing if there are more ranks than cores.
//
// `core` does the same, but keeps strictly to the GPU's NUMA node: the ranks near a node share its
// cores evenly, and cores near no rank's GPU stay idle. It is an error if there are too few cores.
//
// `numa` binds to whole NUMA nodes: the GPU's, or without GPUs those that hold the rank's equal
// part of the cores. Ranks share nodes.
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
  // By local rank: indices into inventory.cores, ascending; empty: not bound.
  std::vector<std::vector<int>> cores;
  std::vector<std::string> notes;  // about the host: it has too few cores for --cpus-per-rank
};

// Returns the cores of each rank. `near` holds by local rank the NUMA node of the rank's GPU, or
// nullopt if it has no GPU or the node is unknown. `host` is the host's name, for the error. Error
// (kExitUsage): `bind_to` is `core` and the host has too few cores.
Result<CoreBinding> bind_cores(const HostInventory& inventory, const std::string& host,
                               const std::vector<std::optional<int>>& near, BindTo bind_to,
                               std::optional<int> cpus_per_rank);

}  // namespace hvdrun
