// A scaling study: a program run at several numbers of ranks. Plain values, made by commands/scale,
// summed up by scale_summary.hpp.
#pragma once

#include "base/result.hpp"
#include "model/report.hpp"

#include <optional>
#include <regex>
#include <string>
#include <string_view>
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

// Several measurements of one thing as one figure.

// The median: of an even number, the mean of the two in the middle. None of none; NaN when one of
// them is.
std::optional<double> median(std::vector<double> values);

struct Figure {
  double median = 0;
  double least = 0;
  double most = 0;
  int count = 0;

  double spread() const { return most - least; }
};

// None of none. With a NaN among them, NaN all through.
std::optional<Figure> figure_of(const std::vector<double>& values);

// What a run's report (docs/report.md) and its output say about its speed and its results.

// What to look for in a program's output: expressions whose first group is a number.
struct Patterns {
  std::optional<std::regex> throughput;     // samples a second
  std::optional<std::regex> epoch_seconds;  // how long an epoch took
  std::optional<std::regex> loss;
  std::optional<std::regex> accuracy;

  bool any() const { return throughput || epoch_seconds || loss || accuracy; }
};

// ECMAScript's syntax. Error: it is not valid, or has no group.
Result<std::regex> parse_pattern(const std::string& text);

// Reads the runtime's counters into `run`: the time of an epoch is that of the slowest rank, its
// samples are those of all. The first `epochs_dropped` epochs of the run do not count, unless there
// are no others. Metrics are those of the lowest rank that has told them. What is not there stays
// unset. Error: this is no report.
Result<void> measure_report(std::string_view report, int epochs_dropped, Run& run);

// The same from the output; what is found there comes before the counters. Of throughput and epoch
// time every line that matches counts, but for the first `epochs_dropped` of them; of loss and
// accuracy the last one. Only the first 4096 bytes of a line are looked at.
void measure_output(std::string_view output, const Patterns& patterns, int epochs_dropped,
                    Run& run);

}  // namespace hvdrun::scale
