// A job as squeue tells it: a plain value, and the format that it is asked for in.
//
// All comes from squeue and nothing from `scontrol show job`: squeue writes the separators that it
// is told to, so that no name, path or comment can be taken for another field, and its fields have
// been the same from SLURM 20.11 to 24.11.
#pragma once

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

}  // namespace hvdrun
