// A Learner on the CPU, for any Model.
#pragma once

#include "learner.hpp"
#include "model.hpp"

#include <memory>
#include <span>
#include <vector>

#include <hvd/hvd.hpp>

namespace digits {

class Optimizer : public Learner {
 public:
  explicit Optimizer(std::unique_ptr<Model> model);

  std::span<double> parameters() override { return model_->parameters(); }
  std::span<double> velocity() override { return velocity_; }
  Sums step(const Dataset& dataset, Samples own_part, double batch_size,
            double learning_rate) override;
  Sums evaluate(const Dataset& dataset, Samples which) override;

 private:
  Sums compute(const Dataset& dataset, Samples own_part, std::span<double> gradient);

  std::unique_ptr<Model> model_;
  std::vector<double> velocity_;
  hvd::Buffer<double> sums_;  // the gradient, then loss and hits; in the host's shared memory
};

}  // namespace digits
