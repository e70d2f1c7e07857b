// SLURM's commands as hvdrun runs them: squeue, scancel, sacct, sbatch, sinfo.
#pragma once

#include "base/environment.hpp"
#include "base/program_run.hpp"
#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The environment of a command that asks or orders SLURM and whose output is parsed: `environment`
// without what would change that (SQUEUE_FORMAT, SCANCEL_STATE, …; their manual pages, section
// ENVIRONMENT VARIABLES), with LC_ALL=C, times as seconds since 1970, and lists of array tasks in
// full. SLURM_CONF and SLURM_CLUSTERS stay. Not for sbatch, which hands its environment on.
std::vector<std::string> query_environment(const Environment& environment);

// "NAME=VALUE" of all of them, as sbatch wants it.
std::vector<std::string> environment_block(const Environment& environment);

// The error of a command that is not there (kExitNotFound): "there is no SLURM on this machine: …".
// Other errors of spawn() pass as they are.
Error explain_start_failure(const std::string& program, Error error);
inline bool is_not_installed(const Error& error) {
  return error.exit_code == kExitNotFound;
}

// Runs it to its end, blocking. The program is looked for in PATH.
Result<ProgramEnd> run_slurm(ProgramRequest request);

// Where SLURM's commands find no slurm.conf and nobody who has it. (A controller without files on
// the hosts that is away looks the same.)
inline constexpr std::string_view kNoConfiguration = "Could not establish a configuration source";
inline constexpr const char* kNoCluster =
    "this machine has SLURM's commands, but belongs to no cluster (no slurm.conf)";
inline bool has_no_cluster(const ProgramEnd& end) {
  return end.code != 0 && end.err.find(kNoConfiguration) != std::string::npos;
}

// What a command that failed has said on stderr, in one line, without "squeue: error: " and the
// advice to try its --help. Never empty.
std::string complaint(const ProgramEnd& end);

}  // namespace hvdrun
