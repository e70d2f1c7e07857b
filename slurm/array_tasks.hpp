// The tasks of a job array, as far as SLURM has reported them. A value for one thread, without a
// clock or a process; it cannot fail.
//
// squeue lists the waiting tasks as one entry, and forgets each task some time after its end. So
// the value remembers them.
#pragma once

#include "slurm/job_end.hpp"
#include "slurm/job_record.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hvdrun {

class ArrayTasks {
 public:
  // Updates the tasks from all entries that squeue lists for the array now.
  void take(const std::vector<JobRecord>& jobs);

  // Ends all tasks, because the queue no longer has any. `ends` is what sacct knows about them.
  void close(const std::vector<JobEnd>& ends);

  bool all_ended() const { return waiting_ == 0 && running_ == 0; }
  std::string counts_text() const;  // "3 tasks wait (JobArrayTaskLimit), 2 tasks run"

  // Returns the exit code of the first task, by its number, that did not succeed. If tasks were
  // cancelled before they ran, and none failed, it is that of a cancelled job.
  int exit_code() const;
  std::string end_text() const;  // "8 tasks succeeded, 2 did not; the first, 12_3, failed with …"

 private:
  struct Task {
    bool ended = false;
    JobEnd end;
  };
  const JobEnd* first_failure() const;
  std::size_t ended() const { return tasks_.size() - running_; }

  std::map<std::uint32_t, Task> tasks_;  // that have started, by their number in the array
  std::size_t waiting_ = 0;
  std::size_t running_ = 0;
  std::string reason_;         // why tasks wait
  std::size_t never_ran_ = 0;  // tasks that were cancelled while they waited
};

}  // namespace hvdrun
