#include "cuda_learner.hpp"

#include "kernels.hpp"

#include <array>

namespace digits {
namespace {

// The layers in an array of parameters or of their gradient, as in ../digits/network.hpp.
struct Layers {
  Layers(double* data, int hidden)
      : hidden_weights{data, hidden, kPixels},
        hidden_biases{hidden_weights.end(), hidden, 1},
        output_weights{hidden_biases.end(), kClasses, hidden},
        output_biases{output_weights.end(), kClasses, 1} {}

  Matrix hidden_weights;
  Matrix hidden_biases;
  Matrix output_weights;
  Matrix output_biases;
};

}  // namespace

CudaLearner::CudaLearner(Network first)
    : hidden_(first.hidden()),
      parameters_(first.parameters().begin(), first.parameters().end()),
      velocity_(parameters_.size()),
      blas_(stream_.get()),
      device_parameters_(parameters_.size()),
      device_velocity_(parameters_.size()),
      sums_(parameters_.size() + 2),
      batch_(hidden_) {
  store();
}

void CudaLearner::fetch() {
  device_parameters_.read(parameters_, stream_);
  device_velocity_.read(velocity_, stream_);
}

void CudaLearner::store() {
  device_parameters_.write(parameters_, stream_);
  device_velocity_.write(velocity_, stream_);
}

// Computes the errors of the scores from the images. Loss and hits are summed at the end of sums_.
void CudaLearner::forward(const Dataset& dataset, Samples which) {
  batch_.load(dataset, which, stream_);
  const Layers layers(device_parameters_.data(), hidden_);
  const Matrix hidden = batch_.hidden(), scores = batch_.scores(), results = batch_.results();
  blas_.multiply(layers.hidden_weights, batch_.images(), hidden);
  rectify(hidden.data, layers.hidden_biases.data, hidden_, batch_.size(), stream_.get());
  blas_.multiply(layers.output_weights, hidden, scores);
  score(scores.data, layers.output_biases.data, batch_.labels(), results.data, kClasses,
        batch_.size(), stream_.get());
  blas_.multiply(results, batch_.ones(), {metrics(), 2, 1});
}

void CudaLearner::output_gradient() {
  const Layers sums(sums_.data(), hidden_);
  blas_.multiply(batch_.scores(), batch_.hidden().transpose(), sums.output_weights);
  blas_.multiply(batch_.scores(), batch_.ones(), sums.output_biases);
}

void CudaLearner::hidden_gradient() {
  const Layers layers(device_parameters_.data(), hidden_);
  const Layers sums(sums_.data(), hidden_);
  const Matrix error = batch_.hidden_error();
  blas_.multiply(layers.output_weights.transpose(), batch_.scores(), error);
  rectify_error(error.data, batch_.hidden().data, hidden_ * batch_.size(), stream_.get());
  blas_.multiply(error, batch_.images().transpose(), sums.hidden_weights);
  blas_.multiply(error, batch_.ones(), sums.hidden_biases);
}

// Starts the sum in the background, after the work that the stream has now. Waiting for the future
// makes the stream wait.
hvd::Future<> CudaLearner::sum_over_ranks(const char* name, double* begin, const double* end) {
  hvd::Options options(name);
  options.memory = hvd::Memory::cuda;
  options.gradients = true;
  options.stream = stream_.get();
  return hvd::allreduce_async(std::span<double>(begin, static_cast<std::size_t>(end - begin)),
                              hvd::Op::sum, options);
}

Sums CudaLearner::step(const Dataset& dataset, Samples own_part, double batch_size,
                       double learning_rate) {
  const Layers sums(sums_.data(), hidden_);
  sums_.clear(stream_);
  if (!own_part.empty()) {
    forward(dataset, own_part);
    output_gradient();
  }
  // The output layer's gradient is ready first, and loss and hits follow it in memory. They are
  // sent while the hidden layer's gradient is computed.
  double* const output = sums.output_weights.data;
  hvd::Future<> output_sums = sum_over_ranks("output gradients", output, metrics() + 2);
  if (!own_part.empty()) hidden_gradient();
  hvd::Future<> hidden_sums = sum_over_ranks("hidden gradients", sums_.data(), output);
  output_sums.wait();
  hidden_sums.wait();

  update(device_parameters_.data(), device_velocity_.data(), sums_.data(),
         static_cast<int>(parameters_.size()), {kMomentum, learning_rate, batch_size},
         stream_.get());
  return read_metrics();
}

Sums CudaLearner::evaluate(const Dataset& dataset, Samples which) {
  if (which.empty()) return {};
  forward(dataset, which);
  return read_metrics();
}

Sums CudaLearner::read_metrics() {
  std::array<double, 2> read{};
  sums_.read(read, stream_, parameters_.size());
  return {read[0], read[1]};
}

}  // namespace digits
