// hvdrun salloc: an allocation of the right shape, and a program or a shell over it.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args` are the words behind "salloc". Returns when the program or the shell has ended and the
// allocation is given back, or was lost. The value is the exit code: the program's; of an
// allocation that was lost by docs/exit-codes.md; 130 when the user withdrew the request. Errors:
// kExitUsage (words, config files, inside a job), kExitNotFound (no SLURM here).
Result<int> run_salloc(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
