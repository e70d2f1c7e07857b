// The files of a study: DIR/scaling.json, .csv, .svg and .html.
#pragma once

#include "base/result.hpp"
#include "commands/scale_measure.hpp"
#include "commands/scale_summary.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hvdrun::scale {

// Each is written whole or not at all, over an older one. Error: names the file.
Result<void> write_study(const Study& study, const Summary& summary,
                         const std::filesystem::path& folder);

// A study for programs: DIR/scaling.json and DIR/scaling.csv. docs/scaling.md describes the fields.

std::string study_json(const Study& study, const Summary& summary);

// A line a size; a figure is three columns: median, least and most. Empty where it is not known.
// RFC 4180.
std::string study_csv(const Summary& summary);

// A study for the terminal: a table, and speed-up as bars against the ideal.

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
