// The report for people: a few lines when all went well, the true reason when not.
#pragma once

#include "model/report.hpp"

#include <string>
#include <vector>

namespace hvdrun {

std::vector<std::string> report_lines(const Report& report);

// The report of a single try in short. Its reason is one line: "rank 3 on n1 failed: exit code 3
// (pid 12, after 0.21 s)", or hvdrun's own.
AttemptReport in_short(const Report& report);

// "exit code 3", "killed by SIGKILL, for memory (OOM)", "called MPI_Abort with code 7".
std::string describe_end(const RankReport& rank);

// "1.23 s", "2 min 5 s", "1 h 2 min".
std::string format_duration(double seconds);

// "45 MB": powers of 1000.
std::string format_bytes(std::uint64_t bytes);

}  // namespace hvdrun
