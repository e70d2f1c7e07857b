// What the training loop needs of a network and of what updates its weights.
#pragma once

#include "dataset.hpp"

#include <cstdint>
#include <span>

namespace digits {

// Sums over samples, never means: sums of ranks can be added, and divided by the global count.
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

  // All weights and biases in one piece, and what the updates remember, for broadcasts and
  // checkpoints.
  virtual std::span<double> parameters() = 0;
  virtual std::span<double> velocity() = 0;

  // Where these are copies: brings them up to date, and takes over what was written there.
  virtual void fetch() {}
  virtual void store() {}

  // One step on the ranks' parts of a batch of `batch_size` samples; returns the sums over the
  // batch.
  virtual Sums step(const Dataset& dataset, Samples own_part, double batch_size,
                    double learning_rate) = 0;

  // Loss and hits over these samples.
  virtual Sums evaluate(const Dataset& dataset, Samples which) = 0;
};

}  // namespace digits
