// Handing a batch script to SLURM.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "batch/batch_script.hpp"
#include "model/batch_spec.hpp"

#include <string>

namespace hvdrun {

// As BatchSpec says: --test-only asks when it could start; --submit prints the job's id; --wait and
// --follow stay until its end. The value is the exit code. Errors: sbatch's refusal in its own
// words, with what to change where that is known (kExitUsage); there is no SLURM (kExitNotFound).
Result<int> submit_script(const BatchScript& script, const BatchSpec& batch,
                          const Environment& environment);

// What to change, when SLURM has refused a job with these words; empty: not known.
std::string advice_on(const std::string& refusal);

}  // namespace hvdrun
