// Submits a batch script to SLURM: runs sbatch, explains its refusals, and waits for the job if
// that is requested. For the main thread; blocks.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "commands/batch_script.hpp"
#include "model/batch_spec.hpp"
#include "model/job_spec.hpp"

#include <string>

namespace hvdrun {

// Submits as BatchSpec says. --test-only only asks when the job could start. --submit prints the
// job's id. --wait and --follow wait for the job's end. Returns the exit code. Errors: sbatch's
// refusal in its own words, with advice if there is some (kExitUsage); there is no SLURM on this
// machine (kExitNotFound); those of follow_job.
Result<int> submit_script(const BatchScript& script, const BatchSpec& batch,
                          const Environment& environment);

// Returns what to change after SLURM refused a job with these words; empty if that is unknown.
std::string advice_on(const std::string& refusal);

}  // namespace hvdrun
