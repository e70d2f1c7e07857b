#include "hvd/float16.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace {

template <class Half>
Half from_bits(std::uint32_t bits) {
  Half half;
  half.bits = static_cast<std::uint16_t>(bits);
  return half;
}

template <class Half>
float value(std::uint32_t bits) {
  return static_cast<float>(from_bits<Half>(bits));
}

// Expects that every finite value is unchanged. Between two neighbours the nearest is taken, in the
// middle the even one.
template <class Half>
void check_rounding(std::uint32_t infinity) {
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    const float low = value<Half>(bits);
    ASSERT_EQ(Half(low).bits, bits);
    ASSERT_EQ(Half(-low).bits, bits | 0x8000u);
    if (bits + 1 == infinity) break;
    const float high = value<Half>(bits + 1);
    ASSERT_LT(low, high);
    const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
    ASSERT_EQ(Half(std::nextafter(middle, low)).bits, bits);
    ASSERT_EQ(Half(std::nextafter(middle, high)).bits, bits + 1);
    ASSERT_EQ(Half(middle).bits, bits + (bits & 1));
  }
}

TEST(Float16, RoundsToTheNearestEven) {
  check_rounding<hvd::float16>(0x7c00);
}

// The middles below 2^-126 are subnormal floats with a bit to spare, so this holds there too.
TEST(Bfloat16, RoundsToTheNearestEven) {
  check_rounding<hvd::bfloat16>(0x7f80);
}

TEST(Float16, RoundsAtItsLimits) {
  EXPECT_EQ(value<hvd::float16>(0x3c00), 1.0f);
  EXPECT_EQ(value<hvd::float16>(0x7bff), 65504.0f);
  EXPECT_EQ(value<hvd::float16>(0x0001), 0x1p-24f);
  EXPECT_EQ(hvd::float16(65519.99f).bits, 0x7bff);
  EXPECT_EQ(hvd::float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(hvd::float16(0x1p-25f).bits, 0);
  EXPECT_EQ(hvd::float16(-0.0f).bits, 0x8000);
}

TEST(Float16, KeepsInfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(static_cast<float>(hvd::float16(-infinity)), -infinity);
  EXPECT_TRUE(std::isnan(static_cast<float>(hvd::float16(nan))));
  EXPECT_EQ(static_cast<float>(hvd::bfloat16(infinity)), infinity);
  EXPECT_TRUE(std::isnan(static_cast<float>(hvd::bfloat16(nan))));
  // A NaN whose payload is only in the lower half must not turn into infinity.
  EXPECT_TRUE(std::isnan(
      static_cast<float>(hvd::bfloat16(std::bit_cast<float>(std::uint32_t{0x7f800001})))));
}

}  // namespace
