// How many nodes, tasks, GPUs and CPUs a job asks SLURM for. Pure functions.
#pragma once

#include "base/result.hpp"
#include "model/batch_spec.hpp"
#include "model/job_spec.hpp"

#include <optional>
#include <string>

namespace hvdrun {

struct BatchShape {
  int ranks = 0;
  std::optional<int> nodes;           // none: SLURM decides (ranks without GPUs)
  std::optional<int> ranks_per_node;  // the last node may have fewer; none: SLURM decides
  int gpus_per_node = 0;
  int cpus_per_rank = 1;  // as SLURM counts them: hardware threads on most clusters
};

// From -np, --nodes (or --nnodes), --ranks-per-host, --cpus-per-rank, and what a node has
// (--gpus-per-node, --cpus-per-node):
//   with GPUs   one rank for each GPU, on as few nodes as hold them, evenly; as many GPUs a node as
//               it has ranks, but all of its GPUs with --ranks-per-host. A rank's CPUs are its part
//               of the node's. Where the ranks do not come out even, the last nodes have fewer.
//   without     as many ranks a node as its CPUs allow, where these are known; else SLURM decides.
// Without -np: one rank for each GPU of --nodes. Errors (kExitUsage) say which number does not fit.
Result<BatchShape> batch_shape(const JobSpec& job, const BatchSpec& batch);

// "16 ranks: 4 nodes × 4 GPUs, 40 CPUs a rank".
std::string describe(const BatchShape& shape);

}  // namespace hvdrun
