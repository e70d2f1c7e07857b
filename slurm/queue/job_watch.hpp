// One job from the queue to its end, as somebody sees it who asks SLURM now and then.
//
// A state machine without a clock, a process or a descriptor: answers and times come in, lines for
// the user come out, and when to ask next. An array is watched as a whole.
#pragma once

#include "slurm/queue/array_book.hpp"
#include "slurm/queue/job_end.hpp"
#include "slurm/queue/job_id.hpp"
#include "slurm/queue/queue_answer.hpp"

#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

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
    std::string text;    // "job 12 ended well after 3:04"
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
  ArrayBook array_;
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
