// A study as one HTML page: warnings, picture, table, how it was measured.
#pragma once

#include "scale/study.hpp"
#include "scale/summary.hpp"

#include <string>

namespace hvdrun::scale {

// Needs nothing else: no script, no font, no other file.
std::string study_page(const Study& study, const Summary& summary);

}  // namespace hvdrun::scale
