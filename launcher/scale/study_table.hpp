// A study for the terminal: a table, and speed-up as bars against the ideal.
#pragma once

#include "scale/summary.hpp"

#include <string>
#include <vector>

namespace hvdrun::scale {

// A title and a line a size: the time of an epoch (or of the run) and how far it spreads over
// repeats, in per cent of the median; samples a second, speed-up, efficiency, metrics. A spread of
// these stands in parentheses where it is not nothing. A size of which no run went well says why.
std::vector<std::string> study_table(const Summary& summary);

// A bar a size, with a mark where the ideal would be, in at most `width` columns. `blocks`: with
// Unicode's block characters, else in ASCII. Empty with less than two sizes to compare.
std::vector<std::string> speedup_bars(const Summary& summary, int width, bool blocks);

// All of it, with warnings and notes.
std::string study_text(const Summary& summary, bool blocks);

}  // namespace hvdrun::scale
