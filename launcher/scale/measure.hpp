// What a run's report (docs/report.md) and its output say about its speed and its results.
#pragma once

#include "base/result.hpp"
#include "scale/study.hpp"

#include <optional>
#include <regex>
#include <string>
#include <string_view>

namespace hvdrun::scale {

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
