// hvdrun scale: runs a program at several numbers of ranks and reports how it scales.
// docs/train/scaling.md is its guide. For the main thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args` are the words after "scale". Each run is an hvdrun of its own, started from this
// executable. Call it while the process has one thread and blocks no signal. Returns the exit code:
// that of the first run that failed, or 128 + the signal that interrupted the study. Errors: those
// of the command line; files that cannot be written.
Result<int> run_scale(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
