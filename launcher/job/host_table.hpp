// What each host has given to the job: for the report at its end.
#pragma once

#include "model/report.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// A line a host, under a line that says what they show: its ranks, the time of the longest, the CPU
// time of all, the peak memory of the largest; dashes for a host that has told of none (it was
// lost). Of many hosts only the first, and how many there are. None for a job on one host, or of
// which no rank has started.
std::vector<std::string> host_table(const Report& report);

}  // namespace hvdrun
