// What `hvdrun jobs` prints, from what squeue said. Pure functions.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_record.hpp"

#include <cstddef>
#include <ctime>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// A header and a line a job, newlines included; empty where there is none. With `columns` lines
// are cut so that they fit a terminal of that width; 0: as long as they are.
std::string jobs_table(const std::vector<JobRecord>& jobs, std::time_t now, std::size_t columns);

// An array of objects; times are seconds, moments seconds since 1970, what is not known is null.
std::string jobs_json(const std::vector<JobRecord>& jobs);

// hvdrun jobs: the caller's jobs in SLURM's queue.

// `args` are the words behind "jobs". Prints; returns the exit code. Errors: kExitUsage,
// kExitNotFound where there is no SLURM, kExitLauncher where it does not answer.
Result<int> run_jobs(const std::vector<std::string>& args, const Environment& environment);

// hvdrun cancel: ends jobs of the caller.

// `args` are the words behind "cancel". The value is the exit code: 0 when all of the jobs end or
// had ended, kExitUsage when one is not the caller's or SLURM does not know it (the others are
// cancelled all the same), kExitLauncher when scancel refuses.
Result<int> run_cancel(const std::vector<std::string>& args, const Environment& environment);

// What is to be done about the jobs that were named, by what squeue says of them. Root may cancel
// everybody's.
struct CancelPlan {
  std::vector<std::string> to_cancel;  // as scancel takes them
  std::vector<std::string> notes;      // of those, and of those that have ended
  std::vector<std::string> refusals;   // of those that are somebody else's, or nobody's
};
CancelPlan plan_cancel(const std::vector<JobId>& ids, const std::vector<JobRecord>& jobs,
                       uid_t user);

}  // namespace hvdrun
