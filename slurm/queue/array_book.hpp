// What is known of an array's tasks: a plain value that squeue's answers are put into.
//
// SLURM lists the tasks that wait as one and forgets each some time after its end, so that the
// book has to remember.
#pragma once

#include "slurm/queue/job_end.hpp"
#include "slurm/queue/job_record.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hvdrun {

class ArrayBook {
 public:
  // All that squeue says of the array now.
  void take(const std::vector<JobRecord>& jobs);

  // SLURM has forgotten all of them; `ends` is what sacct knows.
  void close(const std::vector<JobEnd>& ends);

  bool all_ended() const { return waiting_ == 0 && running_ == 0; }
  std::string counts_text() const;  // "3 tasks wait (JobArrayTaskLimit), 2 run, 5 have ended"

  int exit_code() const;         // of the first task, by its number, that did not end well
  std::string end_text() const;  // "8 tasks ended well, 2 did not; the first: 12_3 failed with …"

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

}  // namespace hvdrun
