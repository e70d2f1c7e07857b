// Whether a batch job with --requeue can go back into the queue, by what SLURM is asked for. A pure
// function, for any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/batch_spec.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns warnings, one line each; none without --requeue. Looks at all that decides: hvdrun's own
// options, --sbatch-arg, and the variables of sbatch, which replace what a script says. Error
// (kExitUsage): the job could never go back, and why: no signal that hvdrun passes on, a time limit
// that leaves no time before it, or --no-requeue.
Result<std::vector<std::string>> check_requeue_request(const BatchSpec& batch,
                                                       const Environment& environment);

}  // namespace hvdrun
