#include "commands/scale_axis.hpp"

#include <gmock/gmock.h>

namespace hvdrun::scale {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Le;
using testing::SizeIs;

TEST(Axis, FromZeroHasRoundTicks) {
  EXPECT_THAT(Axis::from_zero(4).ticks(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Axis::from_zero(0.021).ticks(),
              ElementsAre(0, DoubleEq(0.005), DoubleEq(0.01), DoubleEq(0.015), DoubleEq(0.02),
                          DoubleEq(0.025)));
  EXPECT_THAT(Axis::from_zero(90'000).ticks().back(), 100'000);
  EXPECT_EQ(Axis::from_zero(4).place(1), 0.25);
}

TEST(Axis, FromZeroAcceptsAMaximumThatIsNotPositiveOrFinite) {
  for (const double most : {0.0, -1.0, 1 / 0.0})
    EXPECT_THAT(Axis::from_zero(most).ticks().back(), 1) << most;
}

TEST(Axis, LogarithmicHasRoundTicks) {
  EXPECT_THAT(Axis::logarithmic(1, 42).ticks(), ElementsAre(1, 2, 5, 10, 20, 50));
  EXPECT_THAT(Axis::logarithmic(0.7, 0.7).ticks(), ElementsAre(DoubleEq(0.5), 1));
  EXPECT_THAT(Axis::logarithmic(1, 1).ticks(), ElementsAre(1, 2));
  EXPECT_THAT(Axis::logarithmic(0.3, 250'000).ticks(), SizeIs(Le(8)));
  const Axis axis = Axis::logarithmic(3, 700);
  EXPECT_GE(axis.place(3), 0);
  EXPECT_LE(axis.place(700), 1);
}

TEST(Axis, BetweenLeavesMarginsAtBothEnds) {
  for (const double most : {4.0, 512.0}) {
    const Axis axis = Axis::between(1, most);
    EXPECT_GT(axis.place(1), 0.03) << most;
    EXPECT_LT(axis.place(most), 0.97) << most;
  }
  EXPECT_DOUBLE_EQ(Axis::between(3, 3).place(3), 0.5);
  const Axis wide = Axis::between(1, 64);
  EXPECT_NEAR(wide.place(2) - wide.place(1), wide.place(64) - wide.place(32), 1e-12);
}

}  // namespace
}  // namespace hvdrun::scale
