// Example studies of hvdrun scale for tests.
#pragma once

#include "commands/scale_study.hpp"

#include <string>
#include <vector>

namespace hvdrun::scale {

// Returns a run that succeeded.
inline Run example_run(int size, int repeat, double epoch_seconds, double samples, double loss) {
  Run run;
  run.size = size;
  run.repeat = repeat;
  run.wall_seconds = 10 * epoch_seconds;
  run.epochs = 5;
  run.epoch_seconds = epoch_seconds;
  run.throughput = samples / epoch_seconds;
  run.metrics = {{"loss", loss}, {"accuracy", 0.9}};
  return run;
}

inline Run failed_run(int size, const std::string& failure = "exit code 3", int exit_code = 3) {
  Run run;
  run.size = size;
  run.exit_code = exit_code;
  run.failure = failure;
  return run;
}

// Returns a study with two runs at 1, 2 and 4 ranks. At 4 ranks they are 2.5 times as fast as at 1.
inline Study example_study() {
  Study study;
  study.command = "hvdrun scale -np 1,2,4 --repeat 2 train";
  study.sizes = {1, 2, 4};
  study.repeats = 2;
  study.runs = {example_run(1, 1, 10, 1000, 0.5),  example_run(2, 1, 5, 1000, 0.5),
                example_run(4, 1, 4, 1000, 0.5),   example_run(1, 2, 10, 1000, 0.5),
                example_run(2, 2, 5.5, 1000, 0.5), example_run(4, 2, 4, 1000, 0.5)};
  return study;
}

}  // namespace hvdrun::scale
