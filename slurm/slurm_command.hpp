// Runs SLURM's commands (squeue, scancel, sacct, sbatch, sinfo): their environment, a blocking call
// and their errors. Works on the caller's thread. A command that is not installed is an error with
// exit code kExitNotFound.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "base/subprocess.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns the environment of a command whose output hvdrun reads. It is `environment` without
// variables that change the output (SQUEUE_FORMAT, SCANCEL_STATE, …: see ENVIRONMENT VARIABLES in
// the commands' manual pages). It has LC_ALL=C, times in seconds since 1970, and full lists of
// array tasks. SLURM_CONF and SLURM_CLUSTERS stay. Not for sbatch, which gives its environment to
// the job.
std::vector<std::string> query_environment(const Environment& environment);

// Returns the environment of srun: `caller`, sorted. Leaves out variables that srun would read as
// options of the step, and those that describe where the caller runs: its host, step and task.
std::vector<std::string> srun_environment(const Environment& caller);

// Returns all variables as "NAME=VALUE", for sbatch.
std::vector<std::string> environment_block(const Environment& environment);

// Explains why a command could not be started. For one that is not installed the message is "there
// is no SLURM on this machine: …". Other errors of spawn() are returned unchanged.
Error explain_start_failure(const std::string& program, Error error);
inline bool is_not_installed(const Error& error) {
  return error.exit_code == kExitNotFound;
}

// Runs a command to its end. Blocks until then, at most for the request's timeout. The program is
// searched for in PATH. Error: explain_start_failure.
Result<ProgramEnd> run_slurm(ProgramRequest request);

// What SLURM's commands print if they find neither a slurm.conf nor a controller that sends one. (A
// controller that is away looks the same to hosts without a file of their own.)
inline constexpr std::string_view kNoConfiguration = "Could not establish a configuration source";
inline constexpr const char* kNoCluster =
    "this machine has SLURM's commands, but belongs to no cluster (no slurm.conf)";
inline bool has_no_cluster(const ProgramEnd& end) {
  return end.code != 0 && end.err.find(kNoConfiguration) != std::string::npos;
}

// Returns what a failed command printed on stderr, as one line. Leaves out prefixes such as
// "squeue: error: " and the advice to try --help. Never empty.
std::string complaint(const ProgramEnd& end);

}  // namespace hvdrun
