#include "commands/scale_numbers.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace hvdrun::scale {
namespace {

TEST(Significant, HasThreeSignificantDigitsAndFullWholeNumbers) {
  EXPECT_EQ(significant(0), "0");
  EXPECT_EQ(significant(1), "1.00");
  EXPECT_EQ(significant(0.03124), "0.0312");
  EXPECT_EQ(significant(23.51), "23.5");
  EXPECT_EQ(significant(-2.346), "-2.35");
  EXPECT_EQ(significant(13063.4), "13063");
  EXPECT_EQ(significant(1.5e-7), "1.5e-07");
  EXPECT_EQ(significant(2e12), "2e+12");
  EXPECT_EQ(significant(std::nan("")), "nan");
  EXPECT_EQ(significant(std::numeric_limits<double>::infinity()), "inf");
}

TEST(HardwareText, FoldsEqualGpus) {
  EXPECT_EQ(hardware_text({"n1", 1, {}}), "n1: 1 core");
  EXPECT_EQ(hardware_text({"n1", 16, {"A", "A", "B"}}), "n1: 16 cores, 2 × A, 1 × B");
}

TEST(PercentText, HasADecimalBelow10Percent) {
  EXPECT_EQ(percent_text(0), "0 %");
  EXPECT_EQ(percent_text(0.97), "97 %");
  EXPECT_EQ(percent_text(0.034), "3.4 %");
  EXPECT_EQ(percent_text(1.5), "150 %");
}

}  // namespace
}  // namespace hvdrun::scale
