#include "batch.hpp"

#include <vector>

namespace digits {

void Batch::make_room(std::size_t samples, const Stream& stream) {
  if (samples <= ones_.size()) return;
  labels_ = DeviceArray<int>(samples);
  images_ = DeviceArray<double>(samples * kPixels);
  hidden_ = DeviceArray<double>(samples * static_cast<std::size_t>(hidden_units_));
  hidden_error_ = DeviceArray<double>(samples * static_cast<std::size_t>(hidden_units_));
  scores_ = DeviceArray<double>(samples * kClasses);
  results_ = DeviceArray<double>(samples * 2);
  ones_ = DeviceArray<double>(samples);
  ones_.write(std::vector<double>(samples, 1), stream);
}

void Batch::load(const Dataset& dataset, Samples which, const Stream& stream) {
  make_room(which.size(), stream);
  const Eigen::MatrixXd images = dataset.images(Eigen::all, which);
  std::vector<int> labels;
  for (const auto i : which) labels.push_back(dataset.labels[static_cast<std::size_t>(i)]);
  images_.write({images.data(), static_cast<std::size_t>(images.size())}, stream);
  labels_.write(labels, stream);
  size_ = static_cast<int>(which.size());
}

}  // namespace digits
