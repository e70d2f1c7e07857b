// The network: two layers of 3×3 filters (16, then 32), each rectified and halved by max pooling,
// then 10 classes, softmax and cross-entropy. Everything is float64, as in ../digits/network.hpp.
#pragma once

#include "network.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace digits {

class ConvolutionalNetwork : public Model {
 public:
  // Random weights (K. He et al., 2015), biases 0.
  explicit ConvolutionalNetwork(std::uint64_t seed);

  std::span<double> parameters() override { return parameters_; }
  Sums add_gradient(const Dataset& dataset, Samples which,
                    std::span<double> gradient) const override;
  Sums evaluate(const Dataset& dataset, Samples which) const override;

 private:
  std::vector<double> parameters_;
};

}  // namespace digits
