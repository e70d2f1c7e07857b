// Whether a job of SLURM is the one in which this process runs. Pure functions, for any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "slurm/job_id.hpp"

namespace hvdrun {

// Returns whether the variables are of that job, of that task of an array, or of a task of that
// array.
bool is_own_job(const JobId& id, const Environment& environment);

// Returns the error (kExitUsage) of following the job in which this process runs.
Error follows_itself(const JobId& id);

}  // namespace hvdrun
