// The network of ../digits and its updates on a GPU. Everything is float64 here too: the results
// differ from those of the CPU only by the order of sums.
#pragma once

#include "batch.hpp"
#include "blas.hpp"
#include "device.hpp"
#include "network.hpp"
#include "training.hpp"

#include <span>
#include <vector>

#include <hvd/hvd.hpp>

namespace digits {

class CudaLearner : public Learner {
 public:
  // Uses the current device, and starts with the parameters of `first`.
  explicit CudaLearner(Network first);

  // Copies, in host memory.
  std::span<double> parameters() override { return parameters_; }
  std::span<double> velocity() override { return velocity_; }
  void fetch() override;
  void store() override;

  Sums step(const Dataset& dataset, Samples own_part, double batch_size,
            double learning_rate) override;
  Sums evaluate(const Dataset& dataset, Samples which) override;

 private:
  void forward(const Dataset& dataset, Samples which);
  void output_gradient();
  void hidden_gradient();
  hvd::Future<> sum_over_ranks(const char* name, double* begin, const double* end);
  Sums read_metrics();

  double* metrics() const { return sums_.data() + parameters_.size(); }

  int hidden_;  // units
  std::vector<double> parameters_;
  std::vector<double> velocity_;
  Stream stream_;
  Blas blas_;
  DeviceArray<double> device_parameters_;
  DeviceArray<double> device_velocity_;
  DeviceArray<double> sums_;  // the gradient, then loss and hits
  Batch batch_;
};

}  // namespace digits
