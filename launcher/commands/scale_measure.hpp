// Reads how fast a run was, and with which results, from its report (docs/reference/report.md) and
// its output. Pure functions, for any thread.
#pragma once

#include "base/result.hpp"
#include "commands/scale_study.hpp"

#include <optional>
#include <regex>
#include <string>
#include <string_view>

namespace hvdrun::scale {

// What to search for in a program's output: expressions whose first group is a number.
struct Patterns {
  std::optional<std::regex> throughput;     // samples per second
  std::optional<std::regex> epoch_seconds;  // the time of an epoch
  std::optional<std::regex> loss;
  std::optional<std::regex> accuracy;

  bool any() const { return throughput || epoch_seconds || loss || accuracy; }
};

// Reads a regular expression in ECMAScript's syntax. Error (kExitUsage): it is not valid, or has no
// group.
Result<std::regex> parse_pattern(const std::string& text);

// Reads the runtime's counters from a report into `run`. The time of an epoch is that of the
// slowest rank; its samples are those of all ranks. The first `epochs_dropped` epochs are left out,
// unless there are no others. A metric is that of the lowest rank that reported it. What the report
// does not have stays unset. Error: the text is no report.
Result<void> measure_report(std::string_view report, int epochs_dropped, Run& run);

// Reads a program's output into `run`. What it finds replaces what measure_report found. Throughput
// and epoch time are medians over all lines that match, without the first `epochs_dropped` of them.
// Loss and accuracy are those of the last line that matches. Searches only the first 4096 bytes of
// each line.
void measure_output(std::string_view output, const Patterns& patterns, int epochs_dropped,
                    Run& run);

}  // namespace hvdrun::scale
