// The command line of `hvdrun scale`. Pure functions and values, for any thread. Errors have exit
// code kExitUsage.
#pragma once

#include "base/result.hpp"
#include "commands/scale_measure.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hvdrun {

struct ScaleOptions {
  bool help = false;       // if set, the others are incomplete
  std::vector<int> sizes;  // numbers of ranks or devices, ascending, each once
  scale::Unit unit = scale::Unit::ranks;
  int repeats = 1;
  int epochs_dropped = 1;
  std::filesystem::path folder;  // for the files of the study; empty: none are written
  scale::Patterns patterns;
  bool shows_output = false;
  bool submits = false;                  // each run is a SLURM job of its own
  std::vector<std::string> job_options;  // hvdrun's, with `submits` also sbatch's, for each run
  std::vector<std::string> command;      // the program and its arguments
};

// Reads the words after "scale". Options end where the program begins, as hvdrun's do. An option
// that `scale` does not have is passed to each run's hvdrun, which checks it.
Result<ScaleOptions> parse_scale_options(const std::vector<std::string>& args);

std::string scale_help();

}  // namespace hvdrun
