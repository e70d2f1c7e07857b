// Training on all ranks as if there were one.
//
// Step k's batch is the same set of samples at every size; each rank works on its part of it, which
// may be empty, and every rank makes the same number of steps. Gradients and metrics are summed
// over the ranks and divided by the number of samples in the whole batch. So the losses do not
// depend on the number of ranks, except for the order of sums.
//
// After any end of the job, it can continue from its last checkpoint, with the losses of a run that
// was never interrupted: the checkpoint contains everything on which the next step depends.
#pragma once

#include "dataset.hpp"
#include "learner.hpp"
#include "options.hpp"

#include <string>

namespace digits {

// Means over the samples of all ranks.
struct Metrics {
  double loss = 0;
  double accuracy = 0;  // 0 to 1
};

// Trains until options.epochs are done, the validation loss stops improving, or the job is asked to
// stop. Then returns the reason ("signal 15 (SIGTERM)"), otherwise "". Rank 0 prints a line per
// epoch.
std::string train(Learner& learner, const Split& split, const Options& options);

// Evaluates each rank's part, and returns the means over all ranks.
Metrics evaluate(Learner& learner, const Dataset& dataset);

}  // namespace digits
