// Follows one job from the queue to its end: the state machine that turns SLURM's answers into
// lines for the user.
//
// It has no clock, process or descriptor. Answers and times are passed in. Lines for the user and
// the pause before the next question are returned. An array is watched as a whole. Belongs to one
// thread; it cannot fail.
#pragma once

#include "slurm/array_tasks.hpp"
#include "slurm/job_end.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_record.hpp"

#include <chrono>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

class JobWatch {
 public:
  using Steady = std::chrono::steady_clock::time_point;
  struct Moment {
    std::time_t wall;  // for times in the lines
    Steady steady;     // for pause()
  };
  using Lines = std::vector<std::string>;

  // Returns what a partition has, as describe_partition(); empty if that is not known.
  using PartitionText = std::function<std::string(const std::string& partition)>;

  // `partition_text` is asked if the job waits because of its partition. It may be empty.
  explicit JobWatch(JobId id, PartitionText partition_text = {})
      : id_(std::move(id)), partition_text_(std::move(partition_text)) {}

  // Takes in an answer of squeue and returns what is new in it. The end of the job is not among the
  // lines: see end().
  Lines take(const QueueAnswer& answer, Moment now);

  // Returns whether the queue no longer has the job, so that only sacct can know its end. The
  // caller then calls take_accounting(), with an empty list if there is no accounting.
  bool wants_accounting() const { return forgotten_ && !end_; }
  void take_accounting(const std::vector<JobEnd>& ends);

  // Returns the time until the next question: a tenth of the time since the last change, between
  // 0.5 and 5 seconds.
  std::chrono::milliseconds pause(Steady now) const;

  // Returns the job as SLURM reported it last. nullopt before the first report, and for an array.
  const std::optional<JobRecord>& job() const { return job_; }
  bool is_array() const { return is_array_; }
  // Returns whether the job runs or ran, so that there may be output.
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
  bool is_worth_reporting(const JobRecord& job, std::time_t now) const;
  std::string name() const { return "job " + id_.text; }

  JobId id_;
  PartitionText partition_text_;
  std::optional<JobRecord> job_;
  bool is_array_ = false;
  ArrayTasks array_;
  bool has_started_ = false;
  bool is_away_ = false;  // SLURM does not answer, and a line has said so
  bool forgotten_ = false;
  std::optional<Steady> changed_;                 // the last change; before one, the first answer
  std::optional<JobRecord> reported_;             // as in the last line for the user
  std::optional<std::time_t> reported_expected_;  // its start that SLURM expects
  std::string reported_counts_;                   // of an array
  std::optional<End> end_;
};

}  // namespace hvdrun
