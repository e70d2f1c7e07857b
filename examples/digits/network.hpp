// The network on the CPU, without anything of hvd: 64 pixels, one hidden layer of rectified units,
// 10 classes, softmax and cross-entropy. Everything is float64: runs with different numbers of
// ranks differ only in the order of sums, and in float64 that difference is far smaller than the
// printed precision. ../cnn has another Model.
#pragma once

#include "dataset.hpp"

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <Eigen/Core>

namespace digits {

// Sums over samples, not means: sums of ranks can be added, then divided by the global count.
struct Sums {
  double loss = 0;
  double correct = 0;
};

// A network that can compute its gradient.
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
inline Eigen::MatrixXd softmax(const Eigen::MatrixXd& scores) {
  const Eigen::MatrixXd shifted = scores.rowwise() - scores.colwise().maxCoeff();
  const Eigen::MatrixXd powers = shifted.array().exp();
  return powers.array().rowwise() / powers.colwise().sum().array();
}

// Returns cross-entropy and hits of these probabilities.
inline Sums score(const Eigen::MatrixXd& probabilities, const Dataset& dataset, Samples which) {
  Sums sums;
  for (std::size_t i = 0; i < which.size(); ++i) {
    const int label = dataset.labels[static_cast<std::size_t>(which[i])];
    const auto column = probabilities.col(static_cast<Eigen::Index>(i));
    Eigen::Index guess = 0;
    column.maxCoeff(&guess);
    sums.loss -= std::log(column[label]);
    sums.correct += guess == label ? 1 : 0;
  }
  return sums;
}

// Returns the derivative of the summed cross-entropy by the scores: the probabilities, minus 1 at
// the label.
inline Eigen::MatrixXd score_error(Eigen::MatrixXd probabilities, const Dataset& dataset,
                                   Samples which) {
  for (std::size_t i = 0; i < which.size(); ++i) {
    const int label = dataset.labels[static_cast<std::size_t>(which[i])];
    probabilities(label, static_cast<Eigen::Index>(i)) -= 1;
  }
  return probabilities;
}

// Fills a layer with normally distributed weights.
inline void fill_normal(Eigen::Ref<Eigen::MatrixXd> weights, double deviation, SplitMix64& random) {
  for (Eigen::Index column = 0; column < weights.cols(); ++column) {
    for (Eigen::Index row = 0; row < weights.rows(); ++row)
      weights(row, column) = deviation * random.normal();
  }
}

class Network : public Model {
 public:
  // Random weights (K. He et al., 2015), biases 0. `hidden`: units of the hidden layer.
  explicit Network(std::uint64_t seed, int hidden = 64)
      : hidden_(hidden), parameters_(count_parameters(hidden)) {
    SplitMix64 random(seed);
    Layers<double> layers(parameters_.data(), hidden);
    fill_normal(layers.hidden_weights, std::sqrt(2.0 / kPixels), random);
    fill_normal(layers.output_weights, std::sqrt(2.0 / hidden), random);
  }

  int hidden() const { return hidden_; }

  std::span<double> parameters() override { return parameters_; }

  Sums add_gradient(const Dataset& dataset, Samples which,
                    std::span<double> gradient) const override {
    if (which.empty()) return {};
    const Layers<const double> layers(parameters_.data(), hidden_);
    Layers<double> sums(gradient.data(), hidden_);
    const Forward pass = forward(dataset, which);
    const Matrix output_error = score_error(pass.probabilities, dataset, which);
    const Matrix hidden_error = (layers.output_weights.transpose() * output_error).array() *
                                (pass.hidden.array() > 0).cast<double>();
    sums.output_weights += output_error * pass.hidden.transpose();
    sums.output_biases += output_error.rowwise().sum();
    sums.hidden_weights += hidden_error * pass.images.transpose();
    sums.hidden_biases += hidden_error.rowwise().sum();
    return score(pass.probabilities, dataset, which);
  }

  Sums evaluate(const Dataset& dataset, Samples which) const override {
    if (which.empty()) return {};
    return score(forward(dataset, which).probabilities, dataset, which);
  }

 private:
  using Matrix = Eigen::MatrixXd;
  using Vector = Eigen::VectorXd;

  // The layers as views into one array of parameters (or of their gradient).
  template <class Scalar>
  struct Layers {
    using Weights = std::conditional_t<std::is_const_v<Scalar>, const Matrix, Matrix>;
    using Biases = std::conditional_t<std::is_const_v<Scalar>, const Vector, Vector>;

    Layers(Scalar* data, int hidden)
        : hidden_weights(data, hidden, kPixels),
          hidden_biases(hidden_weights.data() + hidden_weights.size(), hidden),
          output_weights(hidden_biases.data() + hidden_biases.size(), kClasses, hidden),
          output_biases(output_weights.data() + output_weights.size(), kClasses) {}

    Eigen::Map<Weights> hidden_weights;
    Eigen::Map<Biases> hidden_biases;
    Eigen::Map<Weights> output_weights;
    Eigen::Map<Biases> output_biases;
  };

  struct Forward {
    Matrix images;
    Matrix hidden;
    Matrix probabilities;
  };

  static std::size_t count_parameters(int hidden) {
    const auto units = static_cast<std::size_t>(hidden);
    return units * (kPixels + 1) + kClasses * (units + 1);
  }

  Forward forward(const Dataset& dataset, Samples which) const {
    const Layers<const double> layers(parameters_.data(), hidden_);
    Forward pass;
    pass.images = dataset.images(Eigen::all, which);
    pass.hidden =
        ((layers.hidden_weights * pass.images).colwise() + layers.hidden_biases).cwiseMax(0);
    pass.probabilities =
        softmax((layers.output_weights * pass.hidden).colwise() + layers.output_biases);
    return pass;
  }

  int hidden_;
  std::vector<double> parameters_;
};

}  // namespace digits
