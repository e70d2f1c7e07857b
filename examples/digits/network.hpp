// The network: 64 pixels, one hidden layer of rectified units, 10 classes, softmax and
// cross-entropy. Everything is float64: runs with different numbers of ranks differ only in the
// order of sums, and in float64 that difference is far smaller than the printed precision.
#pragma once

#include "model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace digits {

class Network : public Model {
 public:
  // Random weights (K. He et al., 2015), biases 0.
  explicit Network(std::uint64_t seed, int hidden = 64);

  int hidden() const { return hidden_; }

  std::span<double> parameters() override { return parameters_; }
  Sums add_gradient(const Dataset& dataset, Samples which,
                    std::span<double> gradient) const override;
  Sums evaluate(const Dataset& dataset, Samples which) const override;

 private:
  struct Forward {
    Eigen::MatrixXd images;
    Eigen::MatrixXd hidden;
    Eigen::MatrixXd probabilities;
  };
  Forward forward(const Dataset& dataset, Samples which) const;

  int hidden_;  // units
  std::vector<double> parameters_;
};

}  // namespace digits
