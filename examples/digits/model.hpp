// A network on the CPU.
#pragma once

#include "dataset.hpp"
#include "learner.hpp"

#include <span>

#include <Eigen/Core>

namespace digits {

class Model {
 public:
  virtual ~Model() = default;

  // All weights and biases, contiguous.
  virtual std::span<double> parameters() = 0;

  // Adds the gradient of the summed loss over these samples to `gradient`, which has the layout of
  // parameters(). Returns loss and hits. An empty set of samples adds nothing.
  virtual Sums add_gradient(const Dataset& dataset, Samples which,
                            std::span<double> gradient) const = 0;

  // Returns loss and hits over these samples.
  virtual Sums evaluate(const Dataset& dataset, Samples which) const = 0;
};

// Turns scores into probabilities. Each column is a sample.
Eigen::MatrixXd softmax(const Eigen::MatrixXd& scores);

// Returns cross-entropy and hits of these probabilities.
Sums score(const Eigen::MatrixXd& probabilities, const Dataset& dataset, Samples which);

// Returns the derivative of the summed cross-entropy by the scores: the probabilities, minus 1 at
// the label.
Eigen::MatrixXd score_error(Eigen::MatrixXd probabilities, const Dataset& dataset, Samples which);

}  // namespace digits
