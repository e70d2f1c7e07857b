// A scaling study: a program run at several numbers of ranks. Plain values, made by commands/scale,
// summed up by summary.hpp.
#pragma once

#include "model/counters.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun::scale {

struct Run {
  int size = 1;    // ranks
  int repeat = 1;  // counted from 1
  int exit_code = 0;
  std::string trouble;  // why it does not count: "exit code 3"; empty: it went well
  double wall_seconds = 0;
  int epochs = 0;                       // that the next two are from
  std::optional<double> epoch_seconds;  // the median of its epochs
  std::optional<double> throughput;     // samples a second, of all ranks; likewise
  std::vector<MetricValue> metrics;     // at its end
};

struct Study {
  std::string command;     // "hvdrun scale …", as it was typed
  std::vector<int> sizes;  // ascending, each once
  int repeats = 1;
  int epochs_dropped = 1;  // the first ones of each run, which differ from the others
  std::vector<Run> runs;   // in the order in which they were made
  bool interrupted = false;
};

}  // namespace hvdrun::scale
