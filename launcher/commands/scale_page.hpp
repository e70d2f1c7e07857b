// Text made fit to stand in XML and HTML.
#pragma once

#include "commands/scale_measure.hpp"
#include "commands/scale_summary.hpp"

#include <string>
#include <string_view>

namespace hvdrun::scale {

// "&", "<", ">" and quotes as entities; what is no UTF-8, and control characters, which XML 1.0
// does not allow, as U+FFFD.
std::string escape_markup(std::string_view text);

// A study as one HTML page: warnings, picture, table, how it was measured.

// Needs nothing else: no script, no font, no other file.
std::string study_page(const Study& study, const Summary& summary);

}  // namespace hvdrun::scale
