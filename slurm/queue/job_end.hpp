// How a job ended: in words, and as hvdrun's exit code. Pure functions.
#pragma once

#include "slurm/queue/job_record.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct JobEnd {
  std::string id;     // "12", "12_3"
  std::string state;  // SLURM's word; empty: SLURM no longer knows
  std::optional<ExitStatus> exit;
  std::optional<std::chrono::seconds> elapsed;
};

JobEnd end_of(const JobRecord& job);

// The table for users is in docs/exit-codes.md: the job's own code, 128 + signal, or by its state.
int exit_code_of(const JobEnd& end);

// "ended well after 3:04", "failed with exit code 3 after 3:04", "reached its time limit …". What
// stands before it is the caller's.
std::string end_text(const JobEnd& end);

// sacct's words for a job that the queue has forgotten, and what it printed: ends of the job, or of
// the array's tasks. Those that have not ended by its account are left out.
std::vector<std::string> sacct_command(std::string_view id);
std::vector<JobEnd> parse_accounting(std::string_view text);

}  // namespace hvdrun
