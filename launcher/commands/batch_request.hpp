// What hvdrun sbatch and hvdrun salloc share: from the words of a command line to the request to
// SLURM. For the main thread; ask_for_nodes runs sinfo and blocks. Errors have exit code
// kExitUsage.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/batch_command_line.hpp"
#include "commands/batch_script.hpp"
#include "commands/batch_shape.hpp"
#include "model/batch_spec.hpp"
#include "model/job_spec.hpp"
#include "slurm/partitions.hpp"
#include "slurm/script_template.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Loads the template of that name from the folders of the command line and the environment. Errors:
// those of load_template.
Result<ScriptTemplate> find_template(const std::string& name, const BatchSpec& batch,
                                     const Environment& environment);

// Returns the options that the template sets.
std::vector<DefaultSetting> defaults_of(const ScriptTemplate& script);

// Returns the folder in which SLURM starts the job: that of --chdir, otherwise the current one.
std::filesystem::path folder_of_job(const BatchSpec& batch);

// What the nodes of the partition have, as sinfo reports it. nullopt: it is not known here.
struct Offer {
  std::optional<PartitionInfo> each_node;  // also nullopt if they differ
  std::optional<PartitionInfo> largest;
  bool is_known = false;  // sinfo has answered
  std::string doubt;      // what is wrong with the partition's name; empty: nothing
};

// Fills in how many GPUs and CPUs a node has, if the user did not give the GPUs. The numbers are
// those of the partition, from this machine's SLURM. Prints a note about them, or that they are
// unknown. Fills in nothing if the partition's nodes have no GPUs.
Offer ask_for_nodes(BatchSpec& batch, const Environment& environment);

// Returns the shape of the job. Prints a warning if sinfo does not know the partition. Error: a
// number is missing or does not fit; it says what is not known of the nodes.
Result<BatchShape> shape_of_request(const JobSpec& job, const BatchSpec& batch, const Offer& offer);

// Error: the job needs more nodes than the partition has.
Result<void> check_nodes(const BatchShape& shape, const Offer& offer);

// Error: the tasks of an array would write to one file or folder of hvdrun's, as --report.
Result<void> check_array_files(const JobSpec& job, const BatchSpec& batch);

// Returns warnings, one line each: all tasks of an array have one file for their output, more CPUs
// or GPUs on a node than any node has, and one CPU per rank only because nothing is known.
std::vector<std::string> request_warnings(const BatchShape& shape, const JobSpec& job,
                                          const BatchSpec& batch, const Offer& offer);

// Fills in what the user did not give: the job's name, the comment that says what it runs, and with
// --requeue the signal before the time limit.
void complete_request(BatchSpec& batch, const std::vector<std::string>& program);

// Returns the command that the job runs: the hvdrun that starts the ranks, and the program.
BatchCommand inner_command(const BatchInvocation& invocation, const BatchShape& shape,
                           const Environment& environment);

}  // namespace hvdrun
