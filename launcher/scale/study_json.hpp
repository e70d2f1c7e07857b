// A study for programs: DIR/scaling.json and DIR/scaling.csv. docs/scaling.md describes the fields.
#pragma once

#include "scale/study.hpp"
#include "scale/summary.hpp"

#include <string>

namespace hvdrun::scale {

std::string study_json(const Study& study, const Summary& summary);

// A line a size; a figure is three columns: median, least and most. Empty where it is not known.
// RFC 4180.
std::string study_csv(const Summary& summary);

}  // namespace hvdrun::scale
