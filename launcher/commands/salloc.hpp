// hvdrun salloc: requests an allocation of the right shape, and runs a program or a shell over it.
// For the main thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args` are the words after "salloc". Returns after the program or the shell has ended and the
// allocation was given back, or after the allocation was lost. Returns the exit code: the
// program's; that of docs/reference/exit-codes.md if the allocation was lost; 128 + the signal if
// the user interrupted the request. Errors: kExitUsage (options, config files, inside a job),
// kExitNotFound (there is no SLURM on this machine).
Result<int> run_salloc(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
