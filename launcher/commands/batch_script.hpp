// What a job runs, as SLURM keeps it for people who list jobs: hvdrun jobs shows it.
#pragma once

#include "base/result.hpp"
#include "model/batch_spec.hpp"
#include "model/job_spec.hpp"
#include "slurm/script_template.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// "hvdrun: python3 train.py --lr 0.1": one line, cut where it is long.
std::string job_comment(const std::vector<std::string>& program);

// The job's name where the user gives none: the program's, and of an interpreter its script's.
std::string job_name_of(const std::vector<std::string>& program);

// How many nodes, tasks, GPUs and CPUs a job asks SLURM for. Pure functions.

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

// From what the user wants to a batch script. Pure functions.

// How often a job with --requeue goes back into the queue, where --max-restarts does not say it.
inline constexpr int kDefaultRequeues = 10;

// What it is warned by, where --signal does not say it: two minutes before the time limit, the
// script, whose place hvdrun has taken.
inline constexpr auto kRequeueSignal = "B:USR1@120";

// The command that the script runs.
struct BatchCommand {
  std::vector<std::string> hvdrun;   // hvdrun, and the options that it is to have
  std::vector<std::string> program;  // and its arguments
};

// What sbatch and salloc are asked for: options such as "--nodes=4".
struct Request {
  std::string variable;  // the template's variable that shows it
  std::string option;    // of hvdrun's command line: where it comes from; empty: worked out
  std::string text;
  bool is_own_idea = false;  // nobody asked for it
};
std::vector<Request> slurm_requests(const BatchSpec& batch, const BatchShape& shape);

struct BatchScript {
  std::string text;
  std::vector<std::string> directives;  // the requests that stand there as directives
};

// The script. Errors (kExitUsage): those of own_values and render_script; an option for which the
// template has no place.
Result<BatchScript> batch_script(const ScriptTemplate& script, const BatchSpec& batch,
                                 const BatchShape& shape, const BatchCommand& command);

}  // namespace hvdrun
