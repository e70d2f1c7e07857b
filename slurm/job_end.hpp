// What SLURM's words for a job's state mean to somebody who waits for it.
#pragma once

#include "slurm/job_record.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

enum class JobPhase {
  pending,  // it waits for its turn, perhaps once more
  running,  // on its hosts: being prepared, running, suspended, being cleaned up
  ended,
};

// A word that is not known (a later SLURM's) counts as running: it is asked for again.
JobPhase phase_of(std::string_view state);

// Why a pending job waits, for SLURM's best known reasons: "waits for free hosts". Empty for
// others, whose names say it.
std::string_view explain_reason(std::string_view reason);

// "pending (Resources)", "running", "out of memory"
std::string state_text(std::string_view state, std::string_view reason);

// How a job ended: in words, and as hvdrun's exit code. Pure functions.

struct JobEnd {
  std::string id;     // "12", "12_3"
  std::string state;  // SLURM's word; empty: SLURM no longer knows
  std::optional<ExitStatus> exit;
  std::optional<std::chrono::seconds> elapsed;
};

JobEnd end_of(const JobRecord& job);

// The table for users is in docs/exit-codes.md: the job's own code, 128 + signal, or by its state.
int exit_code_of(const JobEnd& end);

// "succeeded after 3:04", "failed with exit code 3 after 3:04", "reached its time limit …". What
// stands before it is the caller's.
std::string end_text(const JobEnd& end);

// sacct's words for a job that the queue has forgotten, and what it printed: ends of the job, or of
// the array's tasks. Those that have not ended by its account are left out.
std::vector<std::string> sacct_command(std::string_view id);
std::vector<JobEnd> parse_accounting(std::string_view text);

}  // namespace hvdrun
