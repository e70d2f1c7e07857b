// What ranks have told of why they end, as lines for people: once whole, the same of others folded.
// Pure functions.
#pragma once

#include "model/job_spec.hpp"
#include "model/report.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The line of a traceback that names the exception: "ValueError: no such file"; of other text its
// last line. Without what would make it longer than a line of a report.
std::string exception_line(std::string_view text);

// The rank's text, a line each, marked as a quotation; nothing when it has told nothing.
std::vector<std::string> failure_lines(const RankReport& rank);

// Those that say the same as the first failure, and the others by what they say: "ranks 1-3 raised
// the same", "rank 2: ValueError: no such file". Without those that only failed for a peer when
// hvdrun stopped them as well.
std::vector<std::string> other_failures(const Report& report);

// Whether other_failures() speaks of the rank.
bool is_told_of_as_failure(const RankReport& rank);

// The report for people: a few lines when all went well, the true reason when not.

std::vector<std::string> report_lines(const Report& report);

// What to type instead, where the first failure is that Python has not found the module horovod or
// hvd; empty elsewhere.
std::vector<std::string> module_advice(const Report& report, const JobSpec& spec);

// The report of a single try in short. Its reason is one line: "rank 3 on n1 failed: exit code 3
// (pid 12, after 0.21 s)", or hvdrun's own.
AttemptReport in_short(const Report& report);

// "exit code 3", "killed by SIGKILL, for memory (OOM)", "called MPI_Abort with code 7".
std::string describe_end(const RankReport& rank);

}  // namespace hvdrun
