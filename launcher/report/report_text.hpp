// The report for people: a few lines if the job succeeded, otherwise the true reason first. Pure
// functions, for any thread, that cannot fail.
#pragma once

#include "model/report.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

std::vector<std::string> report_lines(const Report& report);

// Returns the line that warns of ranks that have not joined: while they run, or at their end.
enum class SeparateRunsAt { present, end };
std::string separate_runs_warning(const Report& report, SeparateRunsAt when);

// Returns one attempt's report in short. Its reason is one line: "rank 3 on n1 failed: exit code 3
// (pid 12, after 0.21 s)", or hvdrun's own.
AttemptReport in_short(const Report& report);

// Returns "exit code 3", "killed by SIGKILL, for memory (OOM)", "called MPI_Abort with code 7".
std::string describe_end(const RankReport& rank);

}  // namespace hvdrun
