// Jobs of SLURM as values: their ids, what squeue and sacct tell of them, times, states and ends.
#pragma once

#include "base/result.hpp"
#include "base/subprocess.hpp"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// How a user names a job: "12", "12_3" (a task of an array), "12+1" (a part of a heterogeneous
// job), "12_[1-3,7]" (some tasks; scancel only).

struct JobId {
  enum class Kind { job, array_task, het_part, array_tasks };

  std::string text;  // as squeue and scancel take it
  std::uint32_t number = 0;
  Kind kind = Kind::job;
};

// Error (kExitUsage): it is none.
Result<JobId> parse_job_id(std::string_view text);

// Whether the job that squeue calls `listed` ("12_3", "12_[4-9]", "12+1") is, or belongs to, the
// job or array of that number.
bool belongs_to(std::string_view listed, std::uint32_t number);

// How many tasks "12_[1-3,7,9-20:2%4]" stands for; 1 for all but a list. 0: the list was cut short.
std::uint32_t count_tasks(std::string_view listed);

// A job as squeue tells it: a plain value, and the format that it is asked for in.
//
// All comes from squeue and nothing from `scontrol show job`: squeue writes the separators that it
// is told to, so that no name, path or comment can be taken for another field, and its fields have
// been the same from SLURM 20.11 to 24.11.

struct ExitStatus {
  int code = 0;
  int signal = 0;  // 0: it exited
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

struct JobRecord {
  std::string id;            // "12", "12_3", "12_[4-9%2]" (tasks that wait), "12+1"
  std::uint32_t number = 0;  // its own: an array's task has another one than the array
  std::uint32_t uid = 0;
  std::string state;  // SLURM's word: "PENDING"
  std::optional<ExitStatus> exit;
  int nodes = 0;
  std::optional<std::chrono::seconds> elapsed;
  std::optional<std::chrono::seconds> left;   // none: no limit, or over it
  std::optional<std::chrono::seconds> limit;  // none: no limit
  std::optional<std::time_t> submitted;
  std::optional<std::time_t> start;  // of a pending one: when SLURM expects it to start
  int restarts = 0;
  bool is_batch = false;

  std::string partition;
  std::string hosts;       // SLURM's notation; empty: none yet
  std::string batch_host;  // where its script runs; empty: none yet
  std::string user;
  std::string reason;  // "None": none
  std::string work_dir;
  std::string std_out;  // as asked for, with sbatch's patterns; empty: not said
  std::string std_err;
  std::string command;  // the script and its words; empty: the script came from stdin
  std::string comment;
  std::string name;
};

// squeue's words up to the choice of jobs: "--me", or "--jobs" and ids.
std::vector<std::string> squeue_command();

// What squeue printed in that format. What is no record of a job is passed over; the text after a
// field that is not there (a control character in a name) is empty.
std::vector<JobRecord> parse_jobs(std::string_view text);

// "3:0" (exit code and signal, SLURM 24 and scontrol), "768" (wait(2)'s status, squeue before).
std::optional<ExitStatus> parse_exit_status(std::string_view text);

// What the job runs, for people: what `hvdrun sbatch` has put into the comment behind
// kCommentPrefix, else the script and its words, else the name.
inline constexpr std::string_view kCommentPrefix = "hvdrun: ";
std::string_view what_it_runs(const JobRecord& job);

// The question for one job, and what SLURM answered. Pure functions.

struct QueueAnswer {
  enum class Kind {
    jobs,
    no_such_job,  // there never was one, or it ended more than MinJobAge ago
    no_answer,    // slurmctld is away, or something else is wrong
  };
  Kind kind = Kind::no_answer;
  std::vector<JobRecord> jobs;  // several: an array, a heterogeneous job
  std::string complaint;        // of no_answer: squeue's words
};

// squeue for that job, whatever its state; of an array's task each task for itself.
std::vector<std::string> squeue_for(const JobId& id);

QueueAnswer read_answer(const ProgramEnd& end);

// Times as SLURM writes them, and as hvdrun shows them. Pure functions.

// "1-02:03:04", "02:03:04", "3:04". None: "UNLIMITED", "NOT_SET", "INVALID", or no such time.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// Seconds since 1970, as SLURM_TIME_FORMAT=%s makes them. None: "N/A", "NONE", "Unknown".
std::optional<std::time_t> parse_moment(std::string_view text);

// As SLURM writes durations: "1-02:03:04", "2:03:04", "3:04".
std::string duration_text(std::chrono::seconds duration);

// Local time: "14:03:05" on the day of `now`, else "2026-11-21 14:03:05".
std::string moment_text(std::time_t moment, std::time_t now);

// What SLURM's words for a job's state mean to somebody who waits for it.

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
