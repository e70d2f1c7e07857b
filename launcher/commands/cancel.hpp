// hvdrun cancel: ends jobs of the caller. For the main thread; plan_cancel is a pure function.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_record.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// `args` are the words after "cancel". Prints, and returns the exit code: 0 if all of the jobs end
// or had ended; kExitUsage if a job is another user's or SLURM does not know it (the others are
// still cancelled); kExitLauncher if scancel refuses.
Result<int> run_cancel(const std::vector<std::string>& args, const Environment& environment);

// What to do about the named jobs.
struct CancelPlan {
  std::vector<std::string> to_cancel;  // as scancel takes them
  std::vector<std::string> notes;      // about those, and about jobs that have ended
  std::vector<std::string> refusals;   // about jobs of other users, and jobs that do not exist
};

// Decides about the jobs of `ids` by squeue's records of them. `user` is the caller; root may
// cancel jobs of all users. `here` are the pids of the caller's hvdruns on this machine.
CancelPlan plan_cancel(const std::vector<JobId>& ids, const std::vector<JobRecord>& jobs,
                       uid_t user, const std::vector<pid_t>& here = {});

// Reads the jobs that a user types: "33", "33,34", "12_[1-3,7]". Errors: those of parse_job_id.
Result<std::vector<JobId>> parse_job_ids(const std::vector<std::string>& operands);

}  // namespace hvdrun
