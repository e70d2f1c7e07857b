// The report's table of hosts. Pure functions.
#pragma once

#include "model/report.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns the table's lines: a heading, and for each host its ranks, the time of the longest rank,
// the CPU time of all, how many cores that kept busy, and the peak memory of the largest rank. If
// ranks use libhvd: which part of their time they spent in collectives, and waiting there for
// others. If NVML showed GPUs: how busy they were, the memory in use of the fullest, the most
// memory of a rank on its GPU, the highest temperature, the power of a GPU on average, and why
// clocks were lowered. A dash replaces what a lost host has not reported. Of many hosts only the
// first are in the table, with the number of the others.
//
// For a job on one host it returns one line with the figures of libhvd and NVML. Returns no line
// for such a job without either or of less than a second, and if no rank has started.
std::vector<std::string> host_table(const Report& report);

}  // namespace hvdrun
