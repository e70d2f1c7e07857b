// The files of a study: DIR/scaling.json, .csv, .svg and .html. The texts are made by pure
// functions; write_study writes files on the caller's thread.
#pragma once

#include "base/result.hpp"
#include "commands/scale_study.hpp"
#include "commands/scale_summary.hpp"

#include <filesystem>
#include <string>

namespace hvdrun::scale {

// Writes the files. Each is written whole or not at all, and replaces an older one. Error: names
// the file that cannot be written.
Result<void> write_study(const Study& study, const Summary& summary,
                         const std::filesystem::path& folder);

// Returns the content of scaling.json. docs/reference/formats/scaling.md describes its fields, and
// those of the CSV file.
std::string study_json(const Study& study, const Summary& summary);

// Returns the content of scaling.csv (RFC 4180): a line for each size. A figure is three columns:
// median, least and most. They are empty if it is unknown.
std::string study_csv(const Summary& summary);

}  // namespace hvdrun::scale
