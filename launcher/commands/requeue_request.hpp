// What becomes of the signal that SLURM sends before a batch job's time limit, and whether a job
// with --requeue can go back into the queue. Pure functions, for any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "commands/batch_shape.hpp"
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

// Returns a warning if the signal before the time limit reaches no rank of a job on one node: SLURM
// sends it to steps of srun. Otherwise returns "", as with --requeue, which is checked above.
std::string missed_signal_warning(const BatchSpec& batch, const BatchShape& shape,
                                  const Environment& environment);

}  // namespace hvdrun
