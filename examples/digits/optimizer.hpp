// Stochastic gradient descent with momentum, on all ranks together.
#pragma once

#include "model.hpp"

#include <span>
#include <vector>

namespace digits {

// All ranks hold the same state and make the same updates, bit by bit.
class Optimizer {
 public:
  explicit Optimizer(Model& model);

  // One step on the ranks' parts of a batch of `batch_size` samples; returns the sums over the
  // batch.
  Sums step(const Dataset& dataset, Samples own_part, double batch_size, double learning_rate);

  std::vector<double>& velocity() { return velocity_; }

 private:
  Model& model_;
  std::vector<double> velocity_;
  std::vector<double> sums_;  // the gradient, then loss and hits
};

}  // namespace digits
