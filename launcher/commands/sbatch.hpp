// hvdrun sbatch: makes a batch script from a template, and prints or submits it. For the main
// thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args` are the words after "sbatch". Returns the exit code; with --wait and --follow the job's
// (follow_job). Errors: kExitUsage (options, config files, template, sbatch's refusal),
// kExitNotFound (there is no SLURM on this machine).
Result<int> run_sbatch(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
