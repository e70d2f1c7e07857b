// Training on all ranks as if there were one.
//
// Step k's batch is the same set of samples at every size; each rank works on its part of it, which
// may be empty, and every rank makes the same number of steps. Gradients and metrics are summed
// over the ranks and divided by the number of samples in the whole batch. So the losses do not
// depend on the number of ranks, but for the order of sums.
//
// Whatever ends the job, it can go on from its last checkpoint, and the losses are those of a run
// that was never interrupted: the checkpoint holds all that the next step depends on.
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

// Trains until options.epochs are done, or the validation loss gets no better, or the job is asked
// to stop: then returns why ("signal 15 (SIGTERM)"), else "". Rank 0 prints a line an epoch.
std::string train(Learner& learner, const Split& split, const Options& options);

// Each rank looks at its part.
Metrics evaluate(Learner& learner, const Dataset& dataset);

}  // namespace digits
