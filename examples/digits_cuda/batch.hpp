// Samples in device memory, and memory for the values of all layers.
#pragma once

#include "blas.hpp"
#include "dataset.hpp"
#include "device.hpp"

namespace digits {

class Batch {
 public:
  // `hidden`: the number of the network's hidden units.
  explicit Batch(int hidden) : hidden_units_(hidden) {}

  // Replaces the samples.
  void load(const Dataset& dataset, Samples which, const Stream& stream);

  int size() const { return size_; }
  const int* labels() const { return labels_.data(); }
  Matrix images() const { return {images_.data(), kPixels, size_}; }
  Matrix hidden() const { return {hidden_.data(), hidden_units_, size_}; }
  Matrix hidden_error() const { return {hidden_error_.data(), hidden_units_, size_}; }
  Matrix scores() const { return {scores_.data(), kClasses, size_}; }
  Matrix results() const { return {results_.data(), 2, size_}; }  // loss and hit
  Matrix ones() const { return {ones_.data(), size_, 1}; }        // to sum up over samples

 private:
  void make_room(std::size_t samples, const Stream& stream);

  int hidden_units_;
  int size_ = 0;
  DeviceArray<int> labels_{0};
  DeviceArray<double> images_{0};
  DeviceArray<double> hidden_{0};
  DeviceArray<double> hidden_error_{0};
  DeviceArray<double> scores_{0};
  DeviceArray<double> results_{0};
  DeviceArray<double> ones_{0};
};

}  // namespace digits
