// What sbatch and salloc have in common: from the words of a call to what is asked of SLURM.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/batch_command_line.hpp"
#include "commands/batch_script.hpp"
#include "model/job_spec.hpp"
#include "slurm/partitions.hpp"
#include "slurm/script_template.hpp"

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
std::optional<PartitionInfo> ask_for_nodes(BatchSpec& batch, const Environment& environment);

// Error (kExitUsage): more nodes than the partition has.
Result<void> check_nodes(const BatchShape& shape, const std::optional<PartitionInfo>& offer);

// Fills in what is not given: the job's name, what it runs, and with --requeue the warning before
// the time limit.
void complete_request(BatchSpec& batch, const std::vector<std::string>& program);

// The hvdrun that starts the ranks, and its program.
BatchCommand inner_command(const BatchInvocation& invocation, const BatchShape& shape,
                           const Environment& environment);

// Handing a batch script to SLURM.

// As BatchSpec says: --test-only asks when it could start; --submit prints the job's id; --wait and
// --follow stay until its end. The value is the exit code. Errors: sbatch's refusal in its own
// words, with what to change where that is known (kExitUsage); there is no SLURM (kExitNotFound).
Result<int> submit_script(const BatchScript& script, const BatchSpec& batch,
                          const Environment& environment);

// What to change, when SLURM has refused a job with these words; empty: not known.
std::string advice_on(const std::string& refusal);

// hvdrun sbatch: a batch script from a template, printed or submitted.

// `args` are the words behind "sbatch". The value is the exit code; with --wait and --follow the
// job's (follow_job). Errors: kExitUsage (words, config files, template, sbatch's refusal),
// kExitNotFound (no SLURM here).
Result<int> run_sbatch(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
