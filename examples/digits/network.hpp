// The network: 64 pixels, one hidden layer of 64 rectified units, 10 classes, softmax and
// cross-entropy. Everything is float64: what differs between numbers of ranks is only the order of
// sums, and in float64 that stays far below what is printed.
#pragma once

#include "dataset.hpp"

#include <cstdint>
#include <span>
#include <vector>

#include <Eigen/Core>

namespace digits {

inline constexpr int kHidden = 64;

// Sums over samples, never means: sums of ranks can be added, and divided by the global count.
struct Sums {
  double loss = 0;
  double correct = 0;
};

class Network {
 public:
  // Random weights (K. He et al., 2015), biases 0.
  explicit Network(std::uint64_t seed);

  // All weights and biases in one piece, for broadcasts and updates.
  std::span<double> parameters() { return parameters_; }

  // Adds the gradient of the summed loss over these samples to `gradient`, which is laid out as
  // parameters() is. An empty set of samples adds nothing.
  Sums add_gradient(const Dataset& samples, std::span<const int> which,
                    std::span<double> gradient) const;

  // Loss and hits over these samples.
  Sums evaluate(const Dataset& samples, std::span<const int> which) const;

 private:
  struct Forward {
    Eigen::MatrixXd images;
    Eigen::MatrixXd hidden;
    Eigen::MatrixXd probabilities;
    Sums sums;
  };
  Forward forward(const Dataset& samples, std::span<const int> which) const;

  std::vector<double> parameters_;
};

}  // namespace digits
