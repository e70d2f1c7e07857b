// The command line of `hvdrun scale`.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "commands/scale_measure.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hvdrun {

struct ScaleOptions {
  bool help = false;       // then the others are not complete
  std::vector<int> sizes;  // ascending, each once
  int repeats = 1;
  int epochs_dropped = 1;
  std::filesystem::path folder;  // for the files of the study; empty: none
  scale::Patterns patterns;
  bool shows_output = false;
  bool submits = false;                  // each run is a SLURM job of its own
  std::vector<std::string> job_options;  // hvdrun's own, and sbatch's with `submits`, for each run
  std::vector<std::string> command;      // the program and its arguments
};

// Options end where the program begins, as hvdrun's do. What is not an option of `scale` is taken
// for hvdrun's, and judged by it. Errors: kExitUsage.
Result<ScaleOptions> parse_scale_options(const std::vector<std::string>& args);

std::string scale_help();

// `hvdrun scale`: runs a program at several numbers of ranks and says how it scales.
// docs/scaling.md is its guide.

// `args`: what stands behind "scale". Each run is an hvdrun of its own, this same executable. Call
// it while the process has one thread and no signal is blocked. The answer is the exit code: that
// of the first run that failed, 128 + the signal when the study was interrupted. Errors: the
// command line, and files that cannot be written.
Result<int> run_scale(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
