// One run of salloc: shows the wait in the queue, passes signals on while something runs over the
// allocation, and reports how it ended. One thread and one event loop.
//
// salloc is our child, at a terminal in our process group. Its stderr is a pipe that we read. An
// hvdrun that runs over the allocation is a child of salloc. It reports its exit code through a
// socket pair, because salloc's own exit code is 0 if that hvdrun is killed. If salloc is killed,
// what it has started becomes our child. We end that, and give the allocation back with scancel.
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

// hvdrun --internal-salloc COMMAND …: becomes salloc, which gets SIGTERM when its parent dies.
// salloc then withdraws the request, or gives the allocation back and signals what runs over it.
inline constexpr std::string_view kSallocArgument = "--internal-salloc";

// Replaces this process with `command`, which ends with nullptr. Returns only if that fails, with
// the exit code.
int exec_salloc(char** command);

// hvdrun --internal-report-exit DESCRIPTOR …: the hvdrun that runs a program over the allocation
// writes its exit code to that descriptor.
inline constexpr std::string_view kReportExitArgument = "--internal-report-exit";

// Writes the exit code to the descriptor, which is a decimal number. Does not block and ignores
// errors.
void report_exit_code(const char* descriptor, int code);

class AllocationSession {
 public:
  // `exit_report` is our end of a socket pair. The other end is inherited by the hvdrun that runs
  // over the allocation, which reports its exit code there. It is empty if a shell runs.
  AllocationSession(const Environment& environment, Fd exit_report);

  // Runs `salloc`, the whole command, to its end. Returns hvdrun's exit code.
  Result<int> run(const std::vector<std::string>& salloc);

 private:
  void read_salloc_stderr();
  void on_line(std::string_view line);
  void on_granted(const std::string& job);
  void on_signal(int signal);
  void withdraw_by_force();
  void ask();
  void take_answer(const ProgramEnd& end);
  Result<int> finish();
  Result<int> clean_up_after_salloc(int signal);
  void cancel_job() const;
  bool exit_was_reported() const;
  std::string how_it_was_lost(int& code);

  const Environment& environment_;
  Fd exit_report_;
  EventLoop loop_;
  SignalWatch signals_;
  Fd errors_;  // salloc's stderr
  FdEvent errors_event_;
  std::string line_;  // the unfinished last line of salloc's stderr
  pid_t pid_ = 0;
  std::optional<JobWatch> watch_;  // while the request is in the queue
  std::unique_ptr<ProgramRun> call_;
  Timer ask_timer_;
  std::optional<JobId> job_;
  bool is_granted_ = false;
  bool is_given_back_ = false;  // what ran over the allocation has ended
  bool is_lost_ = false;
  std::chrono::steady_clock::time_point last_signal_;  // when a signal was passed on
  int interrupted_ = 0;  // by this signal, while the request was in the queue
  Timer withdrawal_;     // ends the time that salloc has to withdraw the request after that
  bool is_cancelled_ = false;
};

}  // namespace hvdrun
