// A scaling study as one HTML page: warnings, picture, table, and how it was measured. Pure
// functions.
#pragma once

#include "commands/scale_measure.hpp"
#include "commands/scale_summary.hpp"

#include <string>

namespace hvdrun::scale {

// Returns the page. It refers to no other file: no script, no font.
std::string study_page(const Study& study, const Summary& summary);

}  // namespace hvdrun::scale
