// Which cores of a host each of its ranks is bound to. A pure function, for any thread.
//
// `automatic` must never be worse than no binding, whatever the program does. So it divides all
// cores of the allocation into equal parts (they differ by one core at most), and leaves none idle.
// A rank gets cores beside its GPU first (those of its L3 cache, if that is known), then of its
// GPU's NUMA node, then of its package. If these do not suffice for an equal part, for example
// because all GPUs are on one package, the rest comes from elsewhere. A part lies in as few NUMA
// nodes and L3 caches as possible, and is shared with as few ranks. It never picks a single core
// out of many, so two jobs on one machine do not pile up on its first cores. It binds nothing if
// there are more ranks than cores.
//
// `core` does the same, but keeps strictly to the GPU's NUMA node: the ranks near a node share its
// cores evenly, and cores near no rank's GPU stay idle. It is an error if there are too few cores.
//
// `numa` binds to whole NUMA nodes: the GPU's, or without GPUs those of the rank's equal part of
// the cores. Ranks share nodes. `socket` does the same with packages.
//
// Where cores are of several kinds, each part has nearly as many of each kind: a step takes as long
// as its slowest rank.
//
// --cpus-per-rank K leaves K cores of the part (`automatic` and `core`), fast ones first. A core's
// hardware threads always go together. A host's only rank is never bound, unless `core` and K both
// say so.
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
  // About the host: it has too few cores for --cpus-per-rank, or too few fast ones.
  std::vector<std::string> notes;
};

// Returns the cores of each rank. `near` holds by local rank what is near the rank's GPU, or
// nothing if it has no GPU or that is unknown. `host_name` is for the error. Error (kExitUsage):
// `bind_to` is `core` and the host has too few cores.
Result<CoreBinding> bind_cores(const HostInventory& inventory, const std::string& host_name,
                               const std::vector<Locality>& near, BindTo bind_to,
                               std::optional<int> cpus_per_rank);

}  // namespace hvdrun
