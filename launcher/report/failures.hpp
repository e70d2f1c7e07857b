// What ranks reported as the cause of their failures, as lines for people: each cause once, the
// ranks that share it folded. Pure functions.
#pragma once

#include "model/report.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns the line of a traceback that names the exception ("ValueError: no such file"), or another
// text's last line. Cuts it to the length of a line of the report.
std::string exception_line(std::string_view text);

// Returns the lines of the rank's text, marked as a quotation. Returns none if it has reported
// nothing.
std::vector<std::string> failure_lines(const RankReport& rank);

// Returns the failures other than the first: "ranks 1-3 raised the same", "rank 2: ValueError: no
// such file". Leaves out ranks that failed only because of a peer and that hvdrun had to stop too.
// Those whose last exception says that a peer has gone are one line.
std::vector<std::string> other_failures(const Report& report);

// Returns whether the user's terminal still shows why the rank failed: its last lines on stderr,
// with the exception if it has reported one.
bool shows_cause(const RankReport& rank);

// Returns whether other_failures() mentions the rank.
bool has_failure_to_show(const Report& report, const RankReport& rank);

// Returns the line, cut so that it is no longer than a line of the report.
std::string clipped(std::string_view line);

}  // namespace hvdrun
