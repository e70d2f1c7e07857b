// How a job ended: in words, as hvdrun's exit code, and as sacct reports it. Pure functions and
// values, for any thread; they cannot fail.
#pragma once

#include "slurm/job_record.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct JobEnd {
  std::string id;     // "12", "12_3"
  std::string state;  // SLURM's name for it; empty: SLURM no longer knows
  std::optional<ExitStatus> exit;
  std::optional<std::chrono::seconds> elapsed;  // nullopt: it never ran, or this is unknown
};

// Returns the end of a job whose state is an ended one.
JobEnd end_of(const JobRecord& job);

// Returns hvdrun's exit code: the job's own code, 128 + its signal, or one by its state. The table
// for users is in docs/reference/exit-codes.md.
int exit_code_of(const JobEnd& end);

// Returns "succeeded after 3:04", "failed with exit code 3 after 3:04", "reached its time limit …".
// The caller puts the job's name before it.
std::string end_text(const JobEnd& end);

// Returns the sacct command for a job that the queue no longer has.
std::vector<std::string> sacct_command(std::string_view id);

// Reads what that command printed: the end of the job, or those of an array's tasks. Leaves out
// jobs and tasks that have not ended according to sacct.
std::vector<JobEnd> parse_accounting(std::string_view text);

}  // namespace hvdrun
