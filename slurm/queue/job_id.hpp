// How a user names a job: "12", "12_3" (a task of an array), "12+1" (a part of a heterogeneous
// job), "12_[1-3,7]" (some tasks; scancel only).
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace hvdrun {

struct JobId {
  enum class Kind { job, array_task, het_part, array_tasks };

  std::string text;  // as squeue and scancel take it
  std::uint32_t number = 0;
  Kind kind = Kind::job;
};

// Error (kExitUsage): it is none.
Result<JobId> parse_job_id(std::string_view text);

// Whether the job that squeue calls `listed` ("12_3", "12_[4-9]", "12+1") is, or belongs to, the
// job or array of that number.
bool belongs_to(std::string_view listed, std::uint32_t number);

// How many tasks "12_[1-3,7,9-20:2%4]" stands for; 1 for all but a list. 0: the list was cut short.
std::uint32_t count_tasks(std::string_view listed);

}  // namespace hvdrun
