// The files that a followed job writes: which they are, from when on they are its own, and what to
// tell when they are not as expected. No loop, no clock: the follower asks when it is time.
#pragma once

#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/subprocess.hpp"
#include "output/sink.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_record.hpp"
#include "slurm/job_watch.hpp"
#include "slurm/output_path.hpp"
#include "slurm/output_tail.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class JobOutput {
 public:
  // What SLURM says of the job now. While it waits for its first run its files are looked at, so
  // that those of an earlier job are known as such.
  void take(const JobRecord& job);

  struct File {
    OutputTail tail;
    bool is_stderr = false;
  };
  // In no order; empty before the job has started, and of a job without a script.
  std::vector<File>& files() { return files_; }

  bool all_appeared() const;
  // A file that has not appeared still may: its folder is there.
  bool may_appear() const;

  // A line for each file that was never seen here: where it is.
  std::vector<std::string> missing() const;

 private:
  std::optional<FileMark> before(const std::string& path, const JobRecord& job) const;

  std::map<std::string, std::optional<FileMark>> marks_;  // by path, taken while the job waited
  OutputPaths paths_;
  std::vector<File> files_;
  std::string job_;   // "job 12"
  std::string host_;  // that writes
};

// "out.txt was removed; …": a line about what has happened to a file; empty: there is none.
std::string news_text(OutputTail::News news, const OutputTail& tail);

// Follows one job of SLURM's queue: asks how it stands, shows its output as it grows, and ends as
// the job ends or when the user has had enough. One thread, one event loop; one squeue at a time.

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

// hvdrun follow: a job from the queue to its end, with its output. Also what stands behind
// `hvdrun sbatch --follow` and `--wait`.

// Until the job ends, or SIGINT, SIGTERM or SIGHUP comes: then the job goes on, and how to come
// back is said. The value is the exit code for hvdrun: the job's own, by docs/exit-codes.md, or 128
// + the signal. From here on those signals are blocked and SIGPIPE is ignored: it is the last thing
// that a process does. `output`: what is known of its files from before it was submitted; none:
// only how the job stands is shown (`hvdrun sbatch --wait`). Errors: kExitUsage (not the caller's
// job; SLURM knows no such job), kExitNotFound (there is no SLURM).
Result<int> follow_job(const JobId& id, std::optional<JobOutput> output,
                       const Environment& environment);

// `args` are the words behind "follow".
Result<int> run_follow(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
