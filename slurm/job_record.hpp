// A job as squeue reports it: the command, its output and the record. Pure functions and values,
// for any thread. parse_jobs and read_answer accept any text.
//
// A record comes from squeue alone, not from `scontrol show job`. squeue writes the separators that
// the command asks for, so that no name, path or comment can be taken for another field. Its fields
// have been the same from SLURM 20.11 to 24.11.
#pragma once

#include "base/subprocess.hpp"
#include "slurm/job_id.hpp"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct ExitStatus {
  int code = 0;
  int signal = 0;  // 0: the job exited by itself
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

struct JobRecord {
  std::string id;            // "12", "12_3", "12_[4-9%2]" (tasks that wait), "12+1"
  std::uint32_t number = 0;  // the job's own: an array's task has another one than the array
  std::uint32_t uid = 0;
  std::string state;  // SLURM's name for it: "PENDING"
  std::optional<ExitStatus> exit;
  int nodes = 0;
  std::optional<std::chrono::seconds> elapsed;
  std::optional<std::chrono::seconds> left;   // nullopt: there is no limit, or it has passed
  std::optional<std::chrono::seconds> limit;  // nullopt: there is no limit
  std::optional<std::time_t> submitted;
  std::optional<std::time_t> start;  // of a pending job: when SLURM expects it to start
  int restarts = 0;
  bool is_batch = false;

  std::string partition;
  std::string hosts;       // in SLURM's notation; empty before the job has hosts
  std::string batch_host;  // where its script runs; empty before the job has hosts
  std::string user;
  std::string reason;  // why it waits; "None": there is no reason
  std::string work_dir;
  std::string std_out;  // as requested, with sbatch's patterns; empty: not requested
  std::string std_err;
  std::string command;  // the script and its arguments; empty: the script came from stdin
  std::string comment;
  std::string name;
};

// Returns squeue's arguments. The caller appends the choice of jobs: "--me", or "--jobs" and ids.
std::vector<std::string> squeue_command();

// Reads what that command printed. Skips what is no record of a job. Fields that are missing are
// empty, such as those after a control character in a name.
std::vector<JobRecord> parse_jobs(std::string_view text);

// Reads "3:0" (exit code and signal; SLURM 24 and scontrol) or "768" (the status of wait(2); squeue
// before SLURM 24). Returns nullopt if the text is neither.
std::optional<ExitStatus> parse_exit_status(std::string_view text);

// Returns what the job runs, for people: what `hvdrun sbatch` wrote into the comment after
// kCommentPrefix, otherwise the script and its arguments, otherwise the name.
inline constexpr std::string_view kCommentPrefix = "hvdrun: ";
std::string_view what_it_runs(const JobRecord& job);

// SLURM's answer about one job.
struct QueueAnswer {
  enum class Kind {
    jobs,
    no_such_job,  // there never was one, or it ended more than MinJobAge ago
    no_answer,    // slurmctld is away, or squeue failed otherwise
  };
  Kind kind = Kind::no_answer;
  std::vector<JobRecord> jobs;  // several for an array or a heterogeneous job
  std::string complaint;        // of no_answer: squeue's message
};

// Returns the squeue command for that job in any state. Tasks of an array are listed one by one if
// the id is one of them.
std::vector<std::string> squeue_for(const JobId& id);

// Returns the squeue command for several jobs in any state, "12,13_4".
std::vector<std::string> squeue_for_list(const std::string& ids);

// Reads what those commands printed.
QueueAnswer read_answer(const ProgramEnd& end);

}  // namespace hvdrun
