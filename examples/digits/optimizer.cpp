#include "optimizer.hpp"

#include <algorithm>
#include <utility>

#include <hvd/timeline.hpp>

namespace digits {

Optimizer::Optimizer(std::unique_ptr<Model> model)
    : model_(std::move(model)),
      velocity_(model_->parameters().size()),
      sums_(velocity_.size() + 2) {}

Sums Optimizer::compute(const Dataset& dataset, Samples own_part, std::span<double> gradient) {
  const hvd::Span span("compute gradients");
  return model_->add_gradient(dataset, own_part, gradient);
}

Sums Optimizer::step(const Dataset& dataset, Samples own_part, double batch_size,
                     double learning_rate) {
  std::fill(sums_.begin(), sums_.end(), 0.0);
  const std::span<double> gradient(sums_.data(), velocity_.size());
  const Sums own = compute(dataset, own_part, gradient);
  double* const metrics = sums_.data() + velocity_.size();
  metrics[0] = own.loss;
  metrics[1] = own.correct;

  // One call for everything that this step sums up.
  hvd::allreduce(sums_.span(), hvd::Op::sum, "gradients");

  const std::span<double> parameters = model_->parameters();
  for (std::size_t i = 0; i < velocity_.size(); ++i) {
    velocity_[i] = kMomentum * velocity_[i] - learning_rate * gradient[i] / batch_size;
    parameters[i] += velocity_[i];
  }
  return {metrics[0], metrics[1]};
}

Sums Optimizer::evaluate(const Dataset& dataset, Samples which) {
  return model_->evaluate(dataset, which);
}

}  // namespace digits
