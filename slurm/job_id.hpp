// Ids of jobs in SLURM, as users and squeue write them. Pure functions and values, for any thread.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace hvdrun {

struct JobId {
  enum class Kind {
    job,         // "12"
    array_task,  // "12_3": a task of an array
    het_part,    // "12+1": a part of a heterogeneous job
    array_tasks  // "12_[1-3,7]": some tasks of an array; for scancel only
  };

  std::string text;          // as squeue and scancel take it
  std::uint32_t number = 0;  // of the job or array
  Kind kind = Kind::job;
};

// Reads a job id as a user types it. Error (kExitUsage): the text is no job id.
Result<JobId> parse_job_id(std::string_view text);

// Returns whether the job that squeue lists as `listed` ("12_3", "12_[4-9]", "12+1") is the job of
// that number, or belongs to the job or array of that number.
bool belongs_to(std::string_view listed, std::uint32_t number);

// Returns how many tasks a list such as "12_[1-3,7,9-20:2%4]" names; 1 for an id without a list; 0
// for a list that was cut short.
std::uint32_t count_tasks(std::string_view listed);

}  // namespace hvdrun
