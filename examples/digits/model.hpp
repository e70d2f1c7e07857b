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

  // All weights and biases in one piece.
  virtual std::span<double> parameters() = 0;

  // Adds the gradient of the summed loss over these samples to `gradient`, which is laid out as
  // parameters() is. An empty set of samples adds nothing.
  virtual Sums add_gradient(const Dataset& dataset, Samples which,
                            std::span<double> gradient) const = 0;

  // Loss and hits over these samples.
  virtual Sums evaluate(const Dataset& dataset, Samples which) const = 0;
};

// Scores to probabilities, a column a sample.
Eigen::MatrixXd softmax(const Eigen::MatrixXd& scores);

// Cross-entropy and hits of these probabilities.
Sums score(const Eigen::MatrixXd& probabilities, const Dataset& dataset, Samples which);

// The derivative of the summed cross-entropy by the scores: probabilities less 1 at the label.
Eigen::MatrixXd score_error(Eigen::MatrixXd probabilities, const Dataset& dataset, Samples which);

}  // namespace digits
