// hvdrun sbatch: a batch script from a template, printed or submitted.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args` are the words behind "sbatch". The value is the exit code; with --wait and --follow the
// job's (follow_job). Errors: kExitUsage (words, config files, template, sbatch's refusal),
// kExitNotFound (no SLURM here).
Result<int> run_sbatch(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
