// hvdrun jobs: the caller's jobs in SLURM's queue.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args` are the words behind "jobs". Prints; returns the exit code. Errors: kExitUsage,
// kExitNotFound where there is no SLURM, kExitLauncher where it does not answer.
Result<int> run_jobs(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
