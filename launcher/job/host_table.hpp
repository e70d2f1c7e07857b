// What each host has given to the job: for the report at its end.
#pragma once

#include "model/report.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// A line a host, under a line that says what they show: its ranks, the time of the longest, the CPU
// time of all and how many cores that kept busy, the peak memory of the largest; where ranks use
// libhvd, how much of their time they were in collectives, and waited there for others; where NVML
// has shown GPUs, how busy they were and the memory in use of the fullest. Dashes for what a host
// has not told (it was lost). Of many hosts only the first, and how many there are.
// For a job on one host one line with what libhvd and NVML have told; none without them, when no
// rank has started, or when the job was over within a second.
std::vector<std::string> host_table(const Report& report);

}  // namespace hvdrun
