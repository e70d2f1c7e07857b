// ShardedOptimizer of hvd/methods.hpp, with ranks as processes.
#include "methods_support.hpp"

#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

// Two tensors of 7 elements together, so that shards begin within tensors.
struct ShardedModel {
  Values first{1, 2, 3, 4}, second{-1, 0.5F, 2};
  Values first_gradient = Values(4), second_gradient = Values(3);

  hvd::State parameters() { return named("first", first, "second", second); }
  hvd::State gradients() { return named("first", first_gradient, "second", second_gradient); }
  void compute_gradients(int rank, int step) {
    for (std::size_t i = 0; i < 4; ++i)
      first_gradient[i] = first[i] * static_cast<float>(rank + 1) - static_cast<float>(step) / 7;
    for (std::size_t i = 0; i < 3; ++i)
      second_gradient[i] = second[i] / static_cast<float>(rank + 3) + static_cast<float>(step);
  }
};

// Adam's step, whose state has as many elements as the parameters.
struct Adam {
  Values mean, square;
  int steps = 0;

  explicit Adam(std::size_t elements) : mean(elements), square(elements) {}

  void operator()(std::span<float> parameters, std::span<const float> gradients) {
    ++steps;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      mean[i] = 0.9F * mean[i] + 0.1F * gradients[i];
      square[i] = 0.99F * square[i] + 0.01F * gradients[i] * gradients[i];
      const float scaled = mean[i] / (1 - std::pow(0.9F, static_cast<float>(steps)));
      const float spread = square[i] / (1 - std::pow(0.99F, static_cast<float>(steps)));
      parameters[i] -= 0.1F * scaled / (std::sqrt(spread) + 1e-8F);
    }
  }
};

// Takes steps with whole gradients and the whole state, without shards.
void train_unsharded(ShardedModel& model, Adam& adam, int rank, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    model.compute_gradients(rank, step);
    hvd::allreduce(std::span(model.first_gradient), hvd::Op::average);
    hvd::allreduce(std::span(model.second_gradient), hvd::Op::average);
    Values all = model.first, gradients = model.first_gradient;
    all.insert(all.end(), model.second.begin(), model.second.end());
    gradients.insert(gradients.end(), model.second_gradient.begin(), model.second_gradient.end());
    adam(all, gradients);
    model.first.assign(all.begin(), all.begin() + 4);
    model.second.assign(all.begin() + 4, all.end());
  }
}

class Sharded : public testing::TestWithParam<int> {};  // the number of ranks
INSTANTIATE_TEST_SUITE_P(Ranks, Sharded, testing::Values(1, 2, 3));

TEST_P(Sharded, StepsEqualThoseOfAnUnshardedOptimizer) {
  expect_right(GetParam(), [size = GetParam()](int rank) -> std::string {
    ShardedModel model, whole;
    Adam whole_adam(7), adam(0);
    hvd::ShardedOptimizer optimizer(model.parameters(), model.gradients(), std::ref(adam));
    adam = Adam(optimizer.elements());
    if (optimizer.elements() != static_cast<std::size_t>((7 + size - 1 - rank) / size))
      return "a shard of " + std::to_string(optimizer.elements());
    for (int step = 0; step < 6; ++step) {
      model.compute_gradients(rank, step);
      optimizer.step();
      train_unsharded(whole, whole_adam, rank, step, step + 1);
      require_near(model.first, whole.first, "first", 1e-6F);
      require_near(model.second, whole.second, "second", 1e-6F);
      require_alike(model.first, "first");
    }
    return "";
  });
}

// Loads a state that one rank could have saved, and gathers it again after some steps.
TEST_P(Sharded, LoadsAndGathersTheStateOfAnotherNumberOfRanks) {
  expect_right(GetParam(), [](int rank) -> std::string {
    ShardedModel model, whole;
    Adam whole_adam(7), adam(0);
    hvd::ShardedOptimizer optimizer(model.parameters(), model.gradients(), std::ref(adam));
    adam = Adam(optimizer.elements());
    train_unsharded(whole, whole_adam, rank, 0, 3);
    // The state that a single rank would have saved.
    model.first = whole.first;
    model.second = whole.second;
    adam.mean = optimizer.part_of(whole_adam.mean);
    adam.square = optimizer.part_of(whole_adam.square);
    adam.steps = 3;
    for (int step = 3; step < 6; ++step) {
      model.compute_gradients(rank, step);
      optimizer.step();
    }
    train_unsharded(whole, whole_adam, rank, 3, 6);
    require_near(model.first, whole.first, "first", 1e-6F);
    require_near(optimizer.gather(adam.mean), whole_adam.mean, "mean", 1e-6F);
    require_near(optimizer.gather(adam.square), whole_adam.square, "square", 1e-6F);
    return "";
  });
}

TEST_P(Sharded, InvalidArgumentsFailOnEveryRank) {
  expect_right(GetParam(), [size = GetParam()](int rank) -> std::string {
    const bool last = rank == size - 1;
    ShardedModel model;
    const auto update = [](std::span<float>, std::span<const float>) {};
    const auto make = [&] { hvd::ShardedOptimizer(model.parameters(), model.gradients(), update); };
    if (last) model.second_gradient.resize(1);
    require_error(make,
                  "hvd::ShardedOptimizer: the gradients do not have the sizes of the parameters");
    model.second_gradient.resize(3);
    if (size > 1) {
      if (last) model.first.resize(5), model.first_gradient.resize(5);
      require_error(make, "first");
      model.first.resize(4), model.first_gradient.resize(4);
    }
    hvd::ShardedOptimizer optimizer(model.parameters(), model.gradients(), update);
    const Values more(optimizer.elements() + (last ? 1 : 0)), less(last ? 0 : optimizer.elements());
    const std::string on_last = "rank " + std::to_string(size - 1) + " gave ";
    require_error([&] { optimizer.gather(more); }, on_last);
    require_error([&] { optimizer.gather(less); }, on_last);
    require_error([&] { optimizer.part_of(more); }, "values for parameters of 7 elements");
    return "";
  });
}

}  // namespace
}  // namespace libhvd::test
