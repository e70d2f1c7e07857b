// What of a job can only be judged when its size is known.
#pragma once

#include "base/result.hpp"
#include "model/job_spec.hpp"

namespace hvdrun {

// The ranks that --only-rank and --stdin name must be in a job of `size` ranks. kExitUsage.
Result<void> validate_ranks(const JobSpec& job, int size);

}  // namespace hvdrun
