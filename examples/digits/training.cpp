#include "training.hpp"

#include "random.hpp"

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <span>
#include <vector>

#include <hvd/hvd.hpp>

namespace digits {
namespace {

constexpr double kMomentum = 0.9;

// This rank's part of a batch: contiguous, as even as can be, in order of ranks.
std::span<const int> own_part(std::span<const int> batch) {
  const auto rank = static_cast<std::size_t>(hvd::rank());
  const auto size = static_cast<std::size_t>(hvd::size());
  const std::size_t begin = batch.size() * rank / size;
  const std::size_t end = batch.size() * (rank + 1) / size;
  return batch.subspan(begin, end - begin);
}

std::vector<int> all_indices(const Dataset& dataset) {
  std::vector<int> indices(static_cast<std::size_t>(dataset.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Stochastic gradient descent with momentum. All ranks hold the same state and make the same
// updates, bit by bit.
class Trainer {
 public:
  Trainer(Network& network, double learning_rate)
      : network_(network),
        learning_rate_(learning_rate),
        velocity_(network.parameters().size()),
        sums_(velocity_.size() + 2) {
    // Also what a run that goes on from a checkpoint would need: rank 0's weights everywhere.
    hvd::broadcast(network.parameters(), 0, "weights");
  }

  // One step on this batch of all ranks; returns the sums over it.
  Sums step(const Dataset& training, std::span<const int> batch) {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    const std::span<double> gradient(sums_.data(), velocity_.size());
    const Sums own = network_.add_gradient(training, own_part(batch), gradient);
    double* const metrics = sums_.data() + velocity_.size();
    metrics[0] = own.loss;
    metrics[1] = own.correct;

    // One call for everything that this step sums up.
    hvd::allreduce(std::span(sums_), hvd::Op::sum, "gradients");

    const std::span<double> parameters = network_.parameters();
    const auto count = static_cast<double>(batch.size());
    for (std::size_t i = 0; i < velocity_.size(); ++i) {
      velocity_[i] = kMomentum * velocity_[i] - learning_rate_ * gradient[i] / count;
      parameters[i] += velocity_[i];
    }
    return {metrics[0], metrics[1]};
  }

 private:
  Network& network_;
  double learning_rate_;
  std::vector<double> velocity_;
  std::vector<double> sums_;  // the gradient, then loss and hits
};

}  // namespace

void train(Network& network, const Dataset& training, const Options& options) {
  Trainer trainer(network, options.learning_rate);
  SplitMix64 random(options.seed);
  std::vector<int> order = all_indices(training);
  std::uint64_t steps = 0;
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    hvd::set_epoch(static_cast<std::uint64_t>(epoch));
    shuffle(order, random);  // the same on all ranks: first shuffle, then share
    Sums sums;
    for (std::span<const int> rest(order); !rest.empty();) {
      const auto batch = rest.first(std::min(rest.size(), static_cast<std::size_t>(options.batch)));
      rest = rest.subspan(batch.size());
      const Sums of_step = trainer.step(training, batch);
      sums.loss += of_step.loss;
      sums.correct += of_step.correct;
      hvd::set_step(++steps);
      hvd::add_samples(own_part(batch).size());
    }
    if (options.quiet) continue;
    hvd::rank0() << "epoch " << epoch + 1 << std::fixed << " loss " << std::setprecision(9)
                 << sums.loss / training.size() << " train accuracy " << std::setprecision(1)
                 << 100 * sums.correct / training.size() << " %" << std::endl;
  }
}

Metrics evaluate(const Network& network, const Dataset& dataset) {
  const std::vector<int> indices = all_indices(dataset);
  const Sums own = network.evaluate(dataset, own_part(indices));
  double sums[] = {own.loss, own.correct};
  hvd::allreduce(std::span(sums), hvd::Op::sum, "evaluation");
  return {sums[0] / dataset.size(), sums[1] / dataset.size()};
}

}  // namespace digits
