// Rules for learning rates, as tables, and invalid arguments.
#include <limits>

#include <gtest/gtest.h>
#include <hvd/rates.hpp>

extern "C" int use_the_data_headers_from_c(void);

namespace {

using hvd::Scaling;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Returns the status of what `call` throws; HVD_OK if it throws nothing.
template <class Call>
hvd_status status_of(Call call) {
  try {
    call();
    return HVD_OK;
  } catch (const hvd::Error& error) {
    return error.status();
  }
}

TEST(ScaleRate, FollowsTheRules) {
  EXPECT_DOUBLE_EQ(hvd::scale_rate(0.1, 8, Scaling::none), 0.1);
  EXPECT_DOUBLE_EQ(hvd::scale_rate(0.1, 8, Scaling::linear), 0.8);
  EXPECT_DOUBLE_EQ(hvd::scale_rate(0.1, 4, Scaling::sqrt), 0.2);
  EXPECT_DOUBLE_EQ(hvd::scale_rate(0.1, 8, Scaling::two_thirds), 0.4);
}

TEST(ScaleRate, OneRankKeepsTheRate) {
  for (const auto scaling : {Scaling::none, Scaling::linear, Scaling::sqrt, Scaling::two_thirds}) {
    EXPECT_EQ(hvd::scale_rate(0.3, 1, scaling), 0.3);
    EXPECT_EQ(hvd::scale_rate(0, 7, scaling), 0);
  }
}

TEST(ScaleRate, RefusesInvalidArguments) {
  const auto scale = [](double rate, std::int64_t size, Scaling scaling) {
    return status_of([=] { hvd::scale_rate(rate, size, scaling); });
  };
  EXPECT_EQ(scale(0.1, 0, Scaling::linear), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(scale(0.1, -4, Scaling::none), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(scale(-0.1, 4, Scaling::linear), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(scale(kNan, 4, Scaling::linear), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(scale(kInfinity, 4, Scaling::none), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(scale(std::numeric_limits<double>::max(), 4, Scaling::linear),
            HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(scale(0.1, 4, static_cast<Scaling>(4)), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(scale(0.1, 4, static_cast<Scaling>(-1)), HVD_ERROR_INVALID_ARGUMENT);
}

TEST(Warmup, RisesLinearlyAndThenStaysConstant) {
  EXPECT_DOUBLE_EQ(hvd::warmup(0.1, 0.8, 0, 7), 0.1);
  EXPECT_DOUBLE_EQ(hvd::warmup(0.1, 0.8, 1, 7), 0.2);
  EXPECT_DOUBLE_EQ(hvd::warmup(0.1, 0.8, 6, 7), 0.7);
  EXPECT_EQ(hvd::warmup(0.1, 0.8, 7, 7), 0.8);
  EXPECT_EQ(hvd::warmup(0.1, 0.8, 1000, 7), 0.8);
  EXPECT_EQ(hvd::warmup(0.1, 0.8, 0, 0), 0.8);
}

TEST(Warmup, RefusesInvalidArguments) {
  const auto warm = [](double from, double to, std::int64_t step, std::int64_t steps) {
    return status_of([=] { hvd::warmup(from, to, step, steps); });
  };
  EXPECT_EQ(warm(kNan, 1, 0, 1), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(warm(0, kInfinity, 0, 1), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(warm(0, -1, 0, 1), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(warm(0, 1, -1, 1), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(warm(0, 1, 0, -1), HVD_ERROR_INVALID_ARGUMENT);
}

TEST(Scaling, HasNamesForTheCommandLine) {
  for (const auto scaling : {Scaling::none, Scaling::linear, Scaling::sqrt, Scaling::two_thirds}) {
    EXPECT_EQ(hvd::parse_scaling(hvd::scaling_name(scaling)), scaling);
  }
  EXPECT_EQ(hvd::scaling_name(Scaling::two_thirds), "two-thirds");
  EXPECT_EQ(hvd_scaling_name(17), nullptr);
  hvd_scaling scaling = 0;
  EXPECT_EQ(hvd_parse_scaling("Linear", &scaling), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(
      hvd_last_error(),
      "hvd_parse_scaling: there is no scaling \"Linear\"; there are none, linear, sqrt and "
      "two-thirds");
  EXPECT_EQ(hvd_parse_scaling(nullptr, &scaling), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_parse_scaling("none", nullptr), HVD_ERROR_INVALID_ARGUMENT);
}

TEST(LocalBatch, AddsUpToTheBatch) {
  for (const std::int64_t batch : {1, 7, 64, 1000}) {
    for (int size = 1; size <= 9; ++size) {
      std::int64_t sum = 0;
      for (int rank = 0; rank < size; ++rank) sum += hvd::local_batch(batch, rank, size);
      EXPECT_EQ(sum, batch);
    }
  }
}

TEST(LocalBatch, RefusesInvalidArguments) {
  EXPECT_EQ(status_of([] { hvd::local_batch(0, 0, 1); }), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([] { hvd::local_batch(8, 0, 0); }), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([] { hvd::local_batch(8, 2, 2); }), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([] { hvd::local_batch(8, -1, 2); }), HVD_ERROR_INVALID_ARGUMENT);
}

TEST(DataHeaders, CompileAsC11) {
  EXPECT_EQ(use_the_data_headers_from_c(), 0);
}

}  // namespace
