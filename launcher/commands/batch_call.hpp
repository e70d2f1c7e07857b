// What sbatch and salloc have in common: from the words of a call to what is asked of SLURM.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "batch/batch_script.hpp"
#include "batch/batch_shape.hpp"
#include "cli/batch_command_line.hpp"
#include "slurm/queue/node_offer.hpp"
#include "slurm/script/script_template.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// The template of that name, from the folders that the call and the environment name.
Result<ScriptTemplate> find_template(const std::string& name, const BatchSpec& batch,
                                     const Environment& environment);

// What it sets, as settings.
std::vector<DefaultSetting> defaults_of(const ScriptTemplate& script);

// Fills in how many GPUs and CPUs a node has, where nobody has said how many GPUs, as this
// machine's SLURM tells it of the partition; and says so, as it says where SLURM does not tell.
// Nothing where its nodes have no GPUs.
std::optional<NodeOffer> ask_for_nodes(BatchSpec& batch, const Environment& environment);

// Error (kExitUsage): more nodes than the partition has.
Result<void> check_nodes(const BatchShape& shape, const std::optional<NodeOffer>& offer);

// Fills in what is not given: the job's name, what it runs, and with --requeue the warning before
// the time limit.
void complete_request(BatchSpec& batch, const std::vector<std::string>& program);

// The hvdrun that starts the ranks, and its program.
BatchCommand inner_command(const BatchInvocation& invocation, const BatchShape& shape,
                           const Environment& environment);

}  // namespace hvdrun
