// One run of salloc: shows the wait, stands by while something runs over the allocation, and says
// how it ended. One thread, one event loop.
#pragma once

#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/subprocess.hpp"
#include "common/fd.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_watch.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// hvdrun --internal-salloc COMMAND …: becomes salloc, which gets SIGTERM when its parent dies. That
// withdraws the request, or gives the allocation back and signals what runs over it. Returns only
// when it fails, with an exit code.
inline constexpr std::string_view kSallocArgument = "--internal-salloc";
int exec_salloc(char** command);

// hvdrun --internal-tell DESCRIPTOR …: the hvdrun that runs a program over the allocation writes
// its exit code there. salloc's own is 0 when what it runs is killed.
inline constexpr std::string_view kTellArgument = "--internal-tell";
void tell_exit_code(const char* descriptor, int code);

class AllocationSession {
 public:
  // `tell`: the end of a socket pair that what runs has the other end of, to tell its exit code;
  // none where a shell runs.
  AllocationSession(const Environment& environment, Fd tell);

  // `salloc` is the whole command. Until it has ended; the value is hvdrun's exit code.
  Result<int> run(const std::vector<std::string>& salloc);

 private:
  void on_salloc_says();
  void on_line(std::string_view line);
  void on_granted(const std::string& job);
  void on_signal(int signal);
  void withdraw_by_force();
  void ask();
  void take_answer(const ProgramEnd& end);
  Result<int> finish();
  bool was_told() const;
  std::string how_it_was_lost(int& code);

  const Environment& environment_;
  Fd tell_;
  EventLoop loop_;
  SignalWatch signals_;
  Fd errors_;  // salloc's stderr
  FdEvent errors_event_;
  std::string line_;  // of it, what has come of the one that has not ended
  pid_t pid_ = 0;
  std::optional<JobWatch> watch_;  // while the request is in the queue
  std::unique_ptr<ProgramRun> call_;
  Timer ask_timer_;
  std::optional<JobId> job_;
  bool is_granted_ = false;
  bool is_given_back_ = false;  // what ran has ended
  bool is_lost_ = false;
  std::chrono::steady_clock::time_point passed_on_;  // when the last signal was
  int interrupted_ = 0;  // by this signal, while the request was in the queue
  Timer withdrawal_;     // salloc's, after that
  bool is_cancelled_ = false;
};

// hvdrun salloc: an allocation of the right shape, and a program or a shell over it.

// `args` are the words behind "salloc". Returns when the program or the shell has ended and the
// allocation is given back, or was lost. The value is the exit code: the program's; of an
// allocation that was lost by docs/exit-codes.md; 130 when the user withdrew the request. Errors:
// kExitUsage (words, config files, inside a job), kExitNotFound (no SLURM here).
Result<int> run_salloc(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
