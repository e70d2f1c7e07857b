// A study for the terminal: a table, and speed-up as bars beside the ideal. Pure functions, for any
// thread; they cannot fail.
#pragma once

#include "commands/scale_summary.hpp"

#include <string>
#include <vector>

namespace hvdrun::scale {

// Returns a title and a line for each size. The columns are the time of an epoch (or of the run),
// its spread over repeats in per cent of the median, samples per second, speed-up, efficiency and
// metrics. A metric's spread follows in parentheses unless it is 0. The line of a size without a
// successful run says why.
std::vector<std::string> study_table(const Summary& summary);

// Returns a bar for each size, with a mark at the ideal, in at most `width` columns. `blocks`: the
// bars are of Unicode's block characters; otherwise they are ASCII. Returns no lines if there are
// less than two sizes to compare.
std::vector<std::string> speedup_bars(const Summary& summary, int width, bool blocks);

// Returns the table, the bars, the warnings and the notes.
std::string study_text(const Summary& summary, bool blocks);

}  // namespace hvdrun::scale
