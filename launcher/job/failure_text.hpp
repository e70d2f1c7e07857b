// What ranks have told of why they end, as lines for people: once whole, the same of others folded.
// Pure functions.
#pragma once

#include "model/report.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The line of a traceback that names the exception: "ValueError: no such file"; of other text its
// last line. Without what would make it longer than a line of a report.
std::string exception_line(std::string_view text);

// The rank's text, a line each, marked as a quotation; nothing when it has told nothing.
std::vector<std::string> failure_lines(const RankReport& rank);

// Those that say the same as the culprit, and the others by what they say: "ranks 1-3 raised the
// same", "rank 2: ValueError: no such file". Without those that only failed for a peer when hvdrun
// stopped them as well.
std::vector<std::string> other_failures(const Report& report);

// Whether other_failures() speaks of the rank.
bool is_told_of_as_failure(const RankReport& rank);

}  // namespace hvdrun
