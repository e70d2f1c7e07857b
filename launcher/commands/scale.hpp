// `hvdrun scale`: runs a program at several numbers of ranks and says how it scales.
// docs/scaling.md is its guide.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args`: what stands behind "scale". Each run is an hvdrun of its own, this same executable. Call
// it while the process has one thread and no signal is blocked. The answer is the exit code: that
// of the first run that failed, 128 + the signal when the study was interrupted. Errors: the
// command line, and files that cannot be written.
Result<int> run_scale(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
