// hvdrun top: what the ranks of a running job do, refreshed each second. For the main thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args` are the words after "top". Prints, and returns the exit code. Errors: kExitUsage (also
// that there is no such job), kExitLauncher (the job does not answer).
Result<int> run_top(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
