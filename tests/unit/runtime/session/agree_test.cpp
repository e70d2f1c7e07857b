// Metrics and early stopping, with ranks as threads.
#include "session/agree.hpp"

#include "support.hpp"

#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(AverageMetrics, WeighsByTheNumberOfSamples) {
  test::run_ranks(3, [](Communicator& communicator) {
    // Rank 2 has no samples, so its metrics are 0/0.
    const int rank = communicator.rank();
    std::array<double, 2> values{rank == 2 ? kNan : 1.0 + rank, rank == 2 ? kNan : 10.0};
    const std::array<double, 3> weights{1, 3, 0};
    const auto outcome =
        average_metrics(communicator, values, weights[static_cast<std::size_t>(rank)], {});
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    EXPECT_EQ(values[0], (1.0 * 1 + 2.0 * 3) / 4);
    EXPECT_EQ(values[1], 10.0);
  });
}

TEST(AverageMetrics, KeepsNonFiniteMetrics) {
  test::run_ranks(2, [](Communicator& communicator) {
    std::array<double, 2> values{communicator.rank() == 0 ? kNan : 1.0, 1.0};
    ASSERT_TRUE(average_metrics(communicator, values, 1, {}).ok());
    EXPECT_TRUE(std::isnan(values[0]));
    EXPECT_EQ(values[1], 1.0);
  });
}

TEST(AverageMetrics, AnInvalidWeightOfOneRankFailsOnEveryRank) {
  for (const double bad : {-1.0, kNan, kInfinity}) {
    test::run_ranks(3, [&](Communicator& communicator) {
      std::array<double, 1> values{1.0};
      const auto outcome =
          average_metrics(communicator, values, communicator.rank() == 1 ? bad : 1, {"loss", {}});
      ASSERT_FALSE(outcome.ok());
      EXPECT_EQ(outcome.error().status, HVD_ERROR_INVALID_ARGUMENT);
      EXPECT_NE(outcome.error().message.find("rank 1: the weight is"), std::string::npos)
          << outcome.error().message;
    });
  }
}

TEST(AverageMetrics, ZeroWeightOfAllRanksFailsOnEveryRank) {
  test::run_ranks(2, [](Communicator& communicator) {
    std::array<double, 1> values{1.0};
    const auto outcome = average_metrics(communicator, values, 0, {});
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().status, HVD_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(values[0], 1.0);
  });
}

hvd_early_stopping stopping(hvd_best mode, std::int64_t patience, double min_delta) {
  hvd_early_stopping state{};
  state.struct_size = sizeof state;
  state.mode = mode;
  state.patience = patience;
  state.min_delta = min_delta;
  return state;
}

struct Updates {
  hvd_best mode;
  double min_delta;
  std::vector<double> metrics;
  std::string better;  // one letter an update: y or n
  double best;
  std::int64_t best_at;
  std::int64_t updates_since_best;
};

class EarlyStopping : public testing::TestWithParam<Updates> {};

TEST_P(EarlyStopping, TracksTheBestMetric) {
  const Updates& run = GetParam();
  auto state = stopping(run.mode, 2, run.min_delta);
  std::string better;
  for (const double metric : run.metrics)
    better += update_early_stopping(state, metric) ? 'y' : 'n';
  EXPECT_EQ(better, run.better);
  EXPECT_EQ(state.best, run.best);
  EXPECT_EQ(state.best_at, run.best_at);
  EXPECT_EQ(state.updates_since_best, run.updates_since_best);
  EXPECT_EQ(state.updates, static_cast<std::int64_t>(run.metrics.size()));
}

INSTANTIATE_TEST_SUITE_P(
    Runs, EarlyStopping,
    testing::Values(Updates{HVD_BEST_MIN, 0, {3, 2, 2, 1}, "yyny", 1, 3, 0},
                    Updates{HVD_BEST_MAX, 0, {0.5, 0.9, 0.8, 0.7}, "yynn", 0.9, 1, 2},
                    Updates{HVD_BEST_MIN, 0.5, {3, 2.6, 2.4}, "yny", 2.4, 2, 0},
                    Updates{HVD_BEST_MAX, 0.5, {3, 3.5, 3.6}, "yny", 3.6, 2, 0},
                    Updates{HVD_BEST_MIN, 0, {kNan, 5, kNan, -kInfinity}, "nynn", 5, 1, 2},
                    Updates{HVD_BEST_MAX, 0, {kNan, 5, kInfinity, 6}, "nyny", 6, 3, 0},
                    Updates{HVD_BEST_MIN, 0, {kInfinity, 4}, "yy", 4, 1, 0}));

TEST(EarlyStopping, UsesTheMetricOfRank0) {
  test::run_ranks(3, [](Communicator& communicator) {
    auto state = stopping(HVD_BEST_MIN, 1, 0);
    // Other ranks have other losses, which would get worse.
    const int rank = communicator.rank();
    const std::array<double, 3> losses{2, 1, 1.5};
    std::string better;
    for (const double loss : losses) {
      const auto answer =
          agree_early_stopping(communicator, state, rank == 0 ? loss : 5 - loss, {});
      ASSERT_TRUE(answer.ok()) << answer.error().message;
      better += *answer ? 'y' : 'n';
    }
    EXPECT_EQ(better, "yyn");
    EXPECT_EQ(state.best, 1);
    EXPECT_EQ(state.updates_since_best, 1);
  });
}

TEST(EarlyStopping, InvalidSettingsOfOneRankFailOnEveryRank) {
  test::run_ranks(2, [](Communicator& communicator) {
    auto state = stopping(HVD_BEST_MIN, communicator.rank() == 1 ? -1 : 1, 0);
    const auto answer = agree_early_stopping(communicator, state, 1, {});
    ASSERT_FALSE(answer.ok());
    EXPECT_NE(answer.error().message.find("patience must be 0 or more"), std::string::npos)
        << answer.error().message;
    EXPECT_EQ(state.updates, 0);
  });
}

}  // namespace
}  // namespace libhvd
