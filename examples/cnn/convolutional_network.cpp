#include "convolutional_network.hpp"

#include "convolution.hpp"

#include <cmath>

namespace digits {
namespace {

using Matrix = Eigen::MatrixXd;

constexpr Eigen::Index kTaps = 9;
const Stack kImage{1, 8};
const Stack kFirst{16, 8};   // after the first filters
const Stack kSecond{32, 4};  // after pooling and the second filters
const Eigen::Index kFeatures = kSecond.rows() / 4;

// One layer's weights, with its biases as the last column, in an array of all parameters.
template <class Scalar>
Eigen::Map<std::conditional_t<std::is_const_v<Scalar>, const Matrix, Matrix>> take_layer(
    Scalar*& next, Eigen::Index rows, Eigen::Index inputs) {
  Scalar* const begin = next;
  next += rows * (inputs + 1);
  return {begin, rows, inputs + 1};
}

template <class Scalar>
struct Layers {
  explicit Layers(Scalar* data)
      : first(take_layer(data, kFirst.planes, kImage.planes * kTaps)),
        second(take_layer(data, kSecond.planes, kFirst.planes * kTaps)),
        output(take_layer(data, kClasses, kFeatures)),
        end(data) {}

  using Layer = decltype(take_layer(std::declval<Scalar*&>(), 0, 0));
  Layer first;
  Layer second;
  Layer output;
  Scalar* end;
};

std::size_t count_parameters() {
  double* const none = nullptr;
  return static_cast<std::size_t>(Layers<double>(none).end - none);
}

template <class Layer>
Matrix apply(const Layer& layer, const Matrix& input) {
  return (layer.leftCols(layer.cols() - 1) * input).colwise() + layer.col(layer.cols() - 1);
}

// Adds the gradient of a layer; returns that of its input.
template <class ConstLayer, class Layer>
Matrix go_back(const ConstLayer& layer, const Matrix& input, const Matrix& error, Layer& sums) {
  sums.leftCols(layer.cols() - 1) += error * input.transpose();
  sums.col(layer.cols() - 1) += error.rowwise().sum();
  return layer.leftCols(layer.cols() - 1).transpose() * error;
}

// The results of filters, rectifier and pooling that the backward pass needs.
struct Convolved {
  Matrix patches;
  Matrix rectified;  // a stack
  Matrix pooled;
  Rows winners;
};

template <class Layer>
Convolved convolve(const Layer& layer, const Matrix& images, const Stack& from, const Stack& to) {
  Convolved pass;
  pass.patches = patches(images, from);
  pass.rectified = to_stack(apply(layer, pass.patches), to).cwiseMax(0);
  pass.pooled = max_pool(pass.rectified, to, pass.winners);
  return pass;
}

// Returns the gradient of the product with the filters, from that of the pooled stack.
Matrix product_error(const Convolved& pass, const Matrix& pooled_error, const Stack& shape) {
  const Matrix error = max_unpool(pooled_error, pass.winners, shape).array() *
                       (pass.rectified.array() > 0).cast<double>();
  return from_stack(error, shape);
}

struct Forward {
  Convolved first;
  Convolved second;
  Matrix probabilities;
};

Forward go_forward(const Layers<const double>& layers, const Dataset& dataset, Samples which) {
  Forward pass;
  pass.first = convolve(layers.first, dataset.images(Eigen::all, which), kImage, kFirst);
  const Stack halved{kFirst.planes, kFirst.side / 2};
  pass.second = convolve(layers.second, pass.first.pooled, halved, kSecond);
  pass.probabilities = softmax(apply(layers.output, pass.second.pooled));
  return pass;
}

template <class Layer>
void initialize(Layer& layer, SplitMix64& random) {
  const Eigen::Index inputs = layer.cols() - 1;
  fill_normal(layer.leftCols(inputs), std::sqrt(2.0 / static_cast<double>(inputs)), random);
}

}  // namespace

ConvolutionalNetwork::ConvolutionalNetwork(std::uint64_t seed) : parameters_(count_parameters()) {
  SplitMix64 random(seed);
  Layers<double> layers(parameters_.data());
  initialize(layers.first, random);
  initialize(layers.second, random);
  initialize(layers.output, random);
}

Sums ConvolutionalNetwork::add_gradient(const Dataset& dataset, Samples which,
                                        std::span<double> gradient) const {
  if (which.empty()) return {};
  const Layers<const double> layers(parameters_.data());
  Layers<double> sums(gradient.data());
  const Forward pass = go_forward(layers, dataset, which);
  const Stack halved{kFirst.planes, kFirst.side / 2};

  const Matrix features_error =
      go_back(layers.output, pass.second.pooled, score_error(pass.probabilities, dataset, which),
              sums.output);
  const Matrix second_error =
      go_back(layers.second, pass.second.patches,
              product_error(pass.second, features_error, kSecond), sums.second);
  go_back(layers.first, pass.first.patches,
          product_error(pass.first, add_patches(second_error, halved), kFirst), sums.first);
  return score(pass.probabilities, dataset, which);
}

Sums ConvolutionalNetwork::evaluate(const Dataset& dataset, Samples which) const {
  if (which.empty()) return {};
  const Layers<const double> layers(parameters_.data());
  return score(go_forward(layers, dataset, which).probabilities, dataset, which);
}

}  // namespace digits
