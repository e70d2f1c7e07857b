// What is known of an array's tasks: a plain value that squeue's answers are put into.
//
// SLURM lists the tasks that wait as one and forgets each some time after its end, so that the
// table has to remember.
#pragma once

#include "slurm/job_record.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class ArrayTasks {
 public:
  // All that squeue says of the array now.
  void take(const std::vector<JobRecord>& jobs);

  // SLURM has forgotten all of them; `ends` is what sacct knows.
  void close(const std::vector<JobEnd>& ends);

  bool all_ended() const { return waiting_ == 0 && running_ == 0; }
  std::string counts_text() const;  // "3 tasks wait (JobArrayTaskLimit), 2 run, 5 have ended"

  int exit_code() const;         // of the first task, by its number, that did not succeed
  std::string end_text() const;  // "8 tasks succeeded, 2 did not; the first: 12_3 failed with …"

 private:
  struct Task {
    bool ended = false;
    JobEnd end;
  };
  const JobEnd* first_failure() const;
  std::size_t ended() const { return tasks_.size() - running_; }

  std::map<std::uint32_t, Task> tasks_;  // by number in the array: those that have started
  std::size_t waiting_ = 0;
  std::size_t running_ = 0;
  std::string reason_;         // why the others wait
  std::size_t never_ran_ = 0;  // tasks that were cancelled while they waited
};

// One job from the queue to its end, as somebody sees it who asks SLURM now and then.
//
// A state machine without a clock, a process or a descriptor: answers and times come in, lines for
// the user come out, and when to ask next. An array is watched as a whole.

class JobWatch {
 public:
  using Steady = std::chrono::steady_clock::time_point;
  struct Moment {
    std::time_t wall;  // for "in 5 minutes"
    Steady steady;
  };
  using Lines = std::vector<std::string>;

  explicit JobWatch(JobId id) : id_(std::move(id)) {}

  // Returns what is new in the answer. The job's end is not among it: see end().
  Lines take(const QueueAnswer& answer, Moment now);

  // The queue has forgotten the job: sacct may know more. Then take_accounting() comes next, with
  // nothing where there is no accounting.
  bool wants_accounting() const { return forgotten_ && !end_; }
  void take_accounting(const std::vector<JobEnd>& ends);

  // How long to wait before the next question: a tenth of the time since the last change, from
  // half a second to five.
  std::chrono::milliseconds pause(Steady now) const;

  // As SLURM last told it. None: not yet, or it is an array.
  const std::optional<JobRecord>& job() const { return job_; }
  bool is_array() const { return is_array_; }
  // It has run, or runs: there may be output.
  bool has_started() const { return has_started_; }

  struct End {
    int exit_code = 0;
    std::string text;    // "job 12 succeeded after 3:04"
    bool known = false;  // SLURM has, or had, such a job
  };
  const std::optional<End>& end() const { return end_; }

 private:
  Lines take_job(const JobRecord& job, Moment now);
  Lines take_array(const std::vector<JobRecord>& jobs, Moment now);
  std::string pending_text(const JobRecord& job, std::time_t now) const;
  bool is_news(const JobRecord& job, std::time_t now) const;
  std::string name() const { return "job " + id_.text; }

  JobId id_;
  std::optional<JobRecord> job_;
  bool is_array_ = false;
  ArrayTasks array_;
  bool has_started_ = false;
  bool is_away_ = false;  // SLURM does not answer, and that has been said
  bool forgotten_ = false;
  std::optional<Steady> changed_;
  std::optional<JobRecord> said_;             // what the user was told last
  std::optional<std::time_t> said_expected_;  // of it: the start that SLURM expects
  std::string said_counts_;                   // of an array
  std::optional<End> end_;
};

}  // namespace hvdrun
