// Follows one job of SLURM's queue: asks how it stands, shows its output as it grows, and ends as
// the job ends or when the user has had enough. One thread, one event loop; one squeue at a time.
#pragma once

#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/program_run.hpp"
#include "base/result.hpp"
#include "base/signal_watch.hpp"
#include "commands/job_output.hpp"
#include "output/sink.hpp"
#include "slurm/queue/job_watch.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class Follower {
 public:
  // SIGINT, SIGTERM and SIGHUP must be blocked where they are not ignored, and SIGPIPE ignored.
  // `output`: with what is known of the job's files from before it was submitted. None: it is not
  // shown.
  Follower(const JobId& id, const Environment& environment, std::optional<JobOutput> output);

  // Until the end. The value is hvdrun's exit code (docs/exit-codes.md).
  Result<int> run();

 private:
  using Steady = std::chrono::steady_clock::time_point;

  // A place where lines and the job's output are shown: stdout, stderr, or both as one.
  struct Place {
    Place(const EventLoop& loop, int fd, const char* name, Follower& owner);
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
  void tell_where_output_is();
  void end_of_job();
  void interrupted(int signal);

  Place& place(bool is_stderr) { return is_stderr && err_ ? *err_ : out_; }
  void note(std::string_view text);
  void show(Place& place, std::string_view bytes);
  void pump(Place& place);
  bool is_congested(bool is_stderr) { return place(is_stderr).sink.pending() > 0; }
  void stop_when_shown();
  void stop(Result<int> result);

  JobId id_;
  std::vector<std::string> environment_;
  bool with_output_;
  EventLoop loop_;
  SignalWatch signals_;
  Place out_;
  std::optional<Place> err_;  // none: stdout and stderr are the same place
  JobWatch watch_;
  JobOutput output_;
  std::unique_ptr<ProgramRun> call_;
  Steady asked_;
  Timer ask_timer_;
  Timer look_timer_;
  std::chrono::milliseconds look_pause_;
  std::optional<Steady> waits_for_file_since_;
  bool told_about_file_ = false;
  std::optional<Steady> ended_;  // the job has; what is left of its output is shown
  int quiet_looks_ = 0;          // since then, in a row
  std::optional<int> stopping_;  // with this exit code, once all is shown
  Result<int> result_ = 0;
};

}  // namespace hvdrun
