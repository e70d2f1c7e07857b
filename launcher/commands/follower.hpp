// Follows one job of SLURM's queue: asks for its state, shows its output as it grows, and ends when
// the job ends or the user interrupts it. One thread and one event loop; one squeue or sacct at a
// time.
#pragma once

#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/subprocess.hpp"
#include "commands/job_output.hpp"
#include "output/sink.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_watch.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class Follower {
 public:
  // SIGINT, SIGTERM and SIGHUP must be blocked unless they are ignored, and SIGPIPE must be
  // ignored. `output` holds what was known of the job's files before it was submitted. With nullopt
  // the job's output is not shown.
  Follower(const JobId& id, const Environment& environment, std::optional<JobOutput> output);

  // Runs the loop until the end. Returns hvdrun's exit code (docs/reference/exit-codes.md). Errors:
  // those of follow_job.
  Result<int> run();

 private:
  using Steady = std::chrono::steady_clock::time_point;

  // Where lines and the job's output are shown: stdout, stderr, or both if they are one file.
  struct Stream {
    Stream(const EventLoop& loop, int fd, const char* name, Follower& owner);
    Sink sink;
    FdEvent writable;
    bool in_line = false;  // what was shown last did not end with a newline
  };

  void ask();
  void take_answer(const ProgramEnd& end);
  void ask_accounting();
  void take_accounting(const ProgramEnd& end);
  void after_answer();

  void look();
  bool look_at(JobOutput::File& file);
  void report_missing_output();
  void end_of_job();
  std::string where_output_is() const;
  void on_signal(int signal);

  Stream& stream(bool is_stderr) { return is_stderr && err_ ? *err_ : out_; }
  void note(std::string_view text);
  void show(Stream& stream, std::string_view bytes);
  void pump(Stream& stream);
  bool is_congested(bool is_stderr) { return stream(is_stderr).sink.pending() > 0; }
  void stop_when_shown();
  void stop(Result<int> result);

  JobId id_;
  std::vector<std::string> environment_;
  bool is_own_job_;
  bool with_output_;
  EventLoop loop_;
  SignalWatch signals_;
  Stream out_;
  std::optional<Stream> err_;  // nullopt: stdout and stderr are the same file
  JobWatch watch_;
  JobOutput output_;
  std::unique_ptr<ProgramRun> call_;
  Steady asked_;
  Timer ask_timer_;
  Timer look_timer_;
  std::chrono::milliseconds look_pause_;
  std::optional<Steady> waits_for_file_since_;
  bool missing_reported_ = false;
  std::optional<Steady> ended_;  // when the job ended; the rest of its output is still shown
  int quiet_looks_ = 0;          // since then, in a row
  std::optional<int> stopping_;  // with this exit code, when everything is shown
  Result<int> result_ = 0;
};

}  // namespace hvdrun
