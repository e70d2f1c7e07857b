#include "commands/scale_statistics.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace hvdrun::scale {
namespace {

TEST(Median, IsTheMiddleValue) {
  EXPECT_EQ(median({}), std::nullopt);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({1, std::numeric_limits<double>::infinity(), 1}), 1);
}

TEST(Median, IsNaNIfAValueIsNaN) {
  EXPECT_TRUE(std::isnan(*median({1, std::nan(""), 2})));
}

TEST(FigureOf, HasTheRange) {
  EXPECT_FALSE(figure_of({}));
  const auto figure = figure_of({5, 1, 3});
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->median, 3);
  EXPECT_EQ(figure->least, 1);
  EXPECT_EQ(figure->most, 5);
  EXPECT_EQ(figure->spread(), 4);
  EXPECT_EQ(figure->count, 3);
  EXPECT_EQ(figure_of({7})->spread(), 0);
}

TEST(FigureOf, IsNaNIfAValueIsNaN) {
  const auto figure = figure_of({1, std::nan("")});
  ASSERT_TRUE(figure);
  EXPECT_TRUE(std::isnan(figure->median));
  EXPECT_TRUE(std::isnan(figure->least));
  EXPECT_TRUE(std::isnan(figure->spread()));
}

}  // namespace
}  // namespace hvdrun::scale
