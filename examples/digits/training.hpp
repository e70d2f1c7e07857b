// Training on all ranks as if there were one.
//
// Step k's batch is the same set of samples at every size; each rank works on its part of it, which
// may be empty, and every rank makes the same number of steps. Gradients and metrics are summed
// over the ranks and divided by the number of samples in the whole batch. So the losses do not
// depend on the number of ranks, but for the order of sums.
#pragma once

#include "dataset.hpp"
#include "network.hpp"
#include "options.hpp"

namespace digits {

// Means over the samples of all ranks.
struct Metrics {
  double loss = 0;
  double accuracy = 0;  // 0 to 1
};

// Trains for options.epochs; rank 0 prints a line an epoch.
void train(Network& network, const Dataset& training, const Options& options);

// Each rank looks at its part.
Metrics evaluate(const Network& network, const Dataset& dataset);

}  // namespace digits
