// What srun prints while it runs a step with --label: its own words, and those of the tasks.
//
//   srun: error: n3: task 2: Exited with exit code 2
//   2: slurmstepd: error: execve(): /opt/hvdrun: No such file or directory
//
// Pure functions, but for the reader, which is a plain value.
#pragma once

#include "base/environment.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct SrunLine {
  std::optional<std::size_t> task;  // without: srun itself
  std::string text;                 // without label, "srun: " and "error: "
};

SrunLine parse_srun_line(std::string_view line);

// Tasks that have ended badly, as srun says it.
struct SrunTaskEnd {
  std::string hosts;               // in SLURM's form: "n[1-3]"
  std::vector<std::size_t> tasks;  // 0, 1, 2
  std::string how;                 // "Exited with exit code 2", "Killed"
};

// Nothing: the text says something else.
std::optional<SrunTaskEnd> parse_task_end(std::string_view text);

// Cuts lines out of what arrives. A line past 4 KiB is cut there.
class SrunReader {
 public:
  // The lines that `bytes` completes.
  std::vector<SrunLine> feed(std::string_view bytes);
  // The rest, that no newline ends.
  std::vector<SrunLine> finish();

 private:
  std::string rest_;
};

// How agents are started by srun: its words and its environment. Pure functions.
//
// Sources: srun(1) of Slurm 20.11 to 24.05, and what was seen of 22.05.

struct SrunOptions {
  std::string program = "srun";
  std::string job_id;      // of the allocation, as in SLURM_JOB_ID
  std::string agent_path;  // hvdrun on the hosts; absolute
};

// argv of one step: one agent on each of exactly these hosts.
//
// `gpus_per_host`: the job's GPUs on each of them. Without it a step inherits the job's, which is
// all of them but where the job asked by another unit than the host (--gpus, --gpus-per-task) or by
// nothing but --exclusive: there SLURM gives a step fewer, or refuses it.
std::vector<std::string> srun_command(const SrunOptions& options,
                                      const std::vector<std::string>& hosts,
                                      std::optional<int> gpus_per_host);

// argv of one step that cleans up each of these hosts: see run_cleanup(). `agents`: their numbers.
std::vector<std::string> srun_cleanup_command(const SrunOptions& options,
                                              const std::vector<std::string>& hosts,
                                              const std::string& job_id,
                                              const std::vector<std::size_t>& agents);

// The caller's environment, less what srun would take for options of the step, and less what says
// of the caller where it runs: on a host, in a step, as a task. "NAME=VALUE", sorted.
std::vector<std::string> srun_environment(const Environment& caller);

// What it means when srun, or an agent under it, ends before the agent has connected: pure
// functions, in a user's words.

struct SrunFailure {
  std::vector<std::string> hosts;  // as SLURM wrote them, "n3" or "n[1-3]"; none: the whole step
  std::string message;             // without the hosts, so that those with one trouble fold
};

// What happened to the agents of `ends`, those with one trouble together. `lines` is what srun and
// its tasks have printed so far.
std::vector<SrunFailure> explain_task_ends(const std::vector<SrunTaskEnd>& ends,
                                           const std::vector<SrunLine>& lines,
                                           const std::string& agent_path);

// srun has ended (`wait_status` as of wait(2)) without a word about single tasks.
SrunFailure explain_srun_failure(int wait_status, const std::vector<SrunLine>& lines);

// srun still runs: what it waits for, for the message of a start that takes too long.
std::string explain_srun_waiting(const std::vector<SrunLine>& lines);

}  // namespace hvdrun
