// The interface through which the training loop uses a network and its optimizer.
#pragma once

#include "dataset.hpp"

#include <cstdint>
#include <span>

namespace digits {

// Sums over samples, not means: sums of ranks can be added, then divided by the global count.
struct Sums {
  double loss = 0;
  double correct = 0;
};

// Some of a data set's samples, by index.
using Samples = std::span<const std::int64_t>;

inline constexpr double kMomentum = 0.9;

// Stochastic gradient descent with momentum, on all ranks together: all hold the same state and
// make the same updates, bit by bit.
class Learner {
 public:
  virtual ~Learner() = default;

  // All weights and biases, and the state of the updates. Each is contiguous, for broadcasts and
  // checkpoints.
  virtual std::span<double> parameters() = 0;
  virtual std::span<double> velocity() = 0;

  // For a learner whose parameters() and velocity() are copies: fetch() updates the copies, store()
  // takes the values over from them.
  virtual void fetch() {}
  virtual void store() {}

  // Makes one step on the ranks' parts of a batch of `batch_size` samples. Returns the sums over
  // the batch.
  virtual Sums step(const Dataset& dataset, Samples own_part, double batch_size,
                    double learning_rate) = 0;

  // Returns loss and hits over these samples.
  virtual Sums evaluate(const Dataset& dataset, Samples which) = 0;
};

}  // namespace digits
