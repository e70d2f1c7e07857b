#include "network.hpp"

#include "random.hpp"

#include <cmath>

namespace digits {
namespace {

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

std::size_t count_parameters(int hidden) {
  const auto units = static_cast<std::size_t>(hidden);
  return units * (kPixels + 1) + kClasses * (units + 1);
}

void fill_normal(Eigen::Ref<Matrix> weights, double deviation, SplitMix64& random) {
  for (Eigen::Index column = 0; column < weights.cols(); ++column) {
    for (Eigen::Index row = 0; row < weights.rows(); ++row) {
      weights(row, column) = deviation * random.normal();
    }
  }
}

}  // namespace

Network::Network(std::uint64_t seed, int hidden)
    : hidden_(hidden), parameters_(count_parameters(hidden)) {
  SplitMix64 random(seed);
  Layers<double> layers(parameters_.data(), hidden);
  fill_normal(layers.hidden_weights, std::sqrt(2.0 / kPixels), random);
  fill_normal(layers.output_weights, std::sqrt(2.0 / hidden), random);
}

Network::Forward Network::forward(const Dataset& dataset, Samples which) const {
  const Layers<const double> layers(parameters_.data(), hidden_);
  Forward pass;
  pass.images = dataset.images(Eigen::all, which);
  pass.hidden =
      ((layers.hidden_weights * pass.images).colwise() + layers.hidden_biases).cwiseMax(0);
  pass.probabilities =
      softmax((layers.output_weights * pass.hidden).colwise() + layers.output_biases);
  return pass;
}

Sums Network::add_gradient(const Dataset& dataset, Samples which,
                           std::span<double> gradient) const {
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

Sums Network::evaluate(const Dataset& dataset, Samples which) const {
  if (which.empty()) return {};
  return score(forward(dataset, which).probabilities, dataset, which);
}

}  // namespace digits
