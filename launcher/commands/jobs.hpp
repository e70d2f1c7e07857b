// hvdrun jobs: lists the caller's jobs in SLURM's queue. For the main thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args` are the words after "jobs". Prints, and returns the exit code. Errors: kExitUsage,
// kExitNotFound (there is no SLURM on this machine), kExitLauncher (SLURM does not answer).
Result<int> run_jobs(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
