// Compares the networks' gradients with finite differences of the loss.
#include "convolutional_network.hpp"
#include "network.hpp"

#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace digits {
namespace {

Dataset random_dataset(int size) {
  SplitMix64 random(3);
  Dataset dataset;
  dataset.images.resize(kPixels, size);
  for (Eigen::Index i = 0; i < dataset.images.size(); ++i) dataset.images(i) = random.uniform();
  for (int i = 0; i < size; ++i) dataset.labels.push_back(static_cast<int>(random.below(kClasses)));
  return dataset;
}

template <class Net>
class Gradient : public testing::Test {};

using Networks = testing::Types<Network, ConvolutionalNetwork>;
TYPED_TEST_SUITE(Gradient, Networks);

TYPED_TEST(Gradient, MatchesFiniteDifferencesOfTheSummedLoss) {
  TypeParam network(7);
  const Dataset dataset = random_dataset(6);
  const std::array<std::int64_t, 4> which{5, 0, 3, 2};
  const std::span<double> parameters = network.parameters();
  std::vector<double> gradient(parameters.size());
  network.add_gradient(dataset, which, gradient);

  constexpr double kStep = 1e-6;
  for (std::size_t i = 0; i < parameters.size(); i += 37) {
    const double before = parameters[i];
    parameters[i] = before + kStep;
    const double above = network.evaluate(dataset, which).loss;
    parameters[i] = before - kStep;
    const double below = network.evaluate(dataset, which).loss;
    parameters[i] = before;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-6) << "parameter " << i;
  }
}

// Ranks rely on this when they add their gradients.
TYPED_TEST(Gradient, OfTheWholeIsTheSumOfThoseOfItsParts) {
  const TypeParam network(7);
  const Dataset dataset = random_dataset(6);
  const std::array<std::int64_t, 5> which{5, 0, 3, 2, 1};
  const auto size = TypeParam(7).parameters().size();
  std::vector<double> whole(size);
  std::vector<double> parts(size);
  const Sums sums = network.add_gradient(dataset, which, whole);
  const Samples all(which);
  Sums added;
  for (const Samples part : {all.first(2), all.subspan(2, 0), all.subspan(2)}) {
    const Sums own = network.add_gradient(dataset, part, parts);
    added.loss += own.loss;
    added.correct += own.correct;
  }
  EXPECT_NEAR(added.loss, sums.loss, 1e-12);
  EXPECT_EQ(added.correct, sums.correct);
  for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(parts[i], whole[i], 1e-12) << i;
}

}  // namespace
}  // namespace digits
