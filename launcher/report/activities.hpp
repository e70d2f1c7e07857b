// What ranks did when an interrupted job was stopped, for people who want to know why it hung. For
// ranks that libhvd does not watch: of others the collective that they wait in says more. Pure
// functions.
#pragma once

#include "model/report.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns a line for each rank that ran when the job was stopped, one for each of these that had
// printed an exception of Python before, and a last line with the command that shows where one of
// them hangs; one line for each group of ranks if there are many. Returns
// nothing if no rank has RankReport::at_stop or if the job ran for less than two seconds.
std::vector<std::string> activity_lines(const Report& report);

}  // namespace hvdrun
