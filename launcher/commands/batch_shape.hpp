// How many nodes, tasks, GPUs and CPUs a job requests from SLURM. Pure functions and values, for
// any thread. Errors have exit code kExitUsage.
#pragma once

#include "base/result.hpp"
#include "model/batch_spec.hpp"
#include "model/job_spec.hpp"

#include <optional>
#include <string>

namespace hvdrun {

struct BatchShape {
  int ranks = 0;                      // that the job begins with
  int places = 0;                     // for the ranks, --spares, and as many as --max-np allows
  std::optional<int> nodes;           // nullopt: SLURM decides (ranks without GPUs)
  std::optional<int> ranks_per_node;  // the last node may have fewer; nullopt: SLURM decides
  int gpus_per_node = 0;
  int cpus_per_rank = 1;        // as SLURM counts CPUs: hardware threads on most clusters
  bool survives_nodes = false;  // --min-np: SLURM must not end the job when a node fails
};

// Computes the shape from -np, --nodes (or --nnodes), --ranks-per-host, --cpus-per-rank, and what a
// node has (--gpus-per-node, --cpus-per-node):
//   with GPUs   one rank for each GPU, evenly on as few nodes as can hold them. A node gets as many
//               GPUs as it has ranks, or all of its GPUs with --ranks-per-host. A rank gets its
//               share of the node's CPUs. If the ranks cannot be even, the last nodes have fewer.
//   without     as many ranks on a node as its CPUs allow, if their number is known. Otherwise
//   SLURM
//               decides.
// Spares, and the ranks that --max-np allows, have places as ranks have.
// Without -np there is one rank for each GPU of --nodes. Errors name the number that does not fit.
Result<BatchShape> batch_shape(const JobSpec& job, const BatchSpec& batch);

// Returns "16 ranks: 4 nodes × 4 GPUs, 40 CPUs per rank".
std::string describe(const BatchShape& shape);

}  // namespace hvdrun
