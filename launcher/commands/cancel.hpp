// hvdrun cancel: ends jobs of the caller.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "slurm/job_record.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

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
