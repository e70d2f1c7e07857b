// Every type and op of reduce() against arithmetic written out here: in int64 or wider for
// integers, in the order of ranks for floating point. So the bits must be equal.
#include "collective/reduce.hpp"

#include "hvd/hvd.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

template <class T>
std::vector<T> apply(hvd_op op, const std::vector<std::vector<T>>& inputs) {
  std::vector<const void*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<T> output(inputs[0].size());
  reduce(op, hvd::detail::find_type<T>(), pointers, output.data(), output.size());
  return output;
}

// Returns one element of the result, computed in Wide.
template <class T, class Wide>
T expected(hvd_op op, const std::vector<std::vector<T>>& inputs, std::size_t i) {
  const auto value = [&](std::size_t rank) { return static_cast<Wide>(inputs[rank][i]); };
  Wide held = value(0);
  for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
    const Wide next = value(rank);
    switch (op) {
      case HVD_MIN:
        held = std::min(held, next);
        break;
      case HVD_MAX:
        held = std::max(held, next);
        break;
      case HVD_PRODUCT:
        held = static_cast<Wide>(held * next);
        break;
      default:
        held = static_cast<Wide>(held + next);
        break;
    }
  }
  if (op == HVD_AVERAGE) held = static_cast<Wide>(held / static_cast<Wide>(inputs.size()));
  return static_cast<T>(held);
}

template <class T>
class ReduceNumbers : public testing::Test {
 public:
  // int64 is exact for integers of up to 32 bits. 16-bit floats are reduced in float.
  using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t,
                                  std::conditional_t<std::is_same_v<T, double>, double, float>>;

  static std::vector<std::vector<T>> make_inputs(std::size_t ranks, std::size_t count) {
    std::vector<std::vector<T>> inputs(ranks);
    std::uint32_t state = 12345;
    for (auto& input : inputs) {
      for (std::size_t i = 0; i < count; ++i) {
        state = state * 1664525 + 1013904223;
        const int small = static_cast<int>(state >> 24) % 100;
        if constexpr (std::is_integral_v<T>) {
          input.push_back(static_cast<T>(std::is_signed_v<T> ? small - 50 : small));
        } else {
          input.push_back(T(static_cast<float>(small - 50) / 7));
        }
      }
    }
    return inputs;
  }
};

using Numbers = testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::int32_t,
                               std::int64_t, hvd::float16, hvd::bfloat16, float, double>;
TYPED_TEST_SUITE(ReduceNumbers, Numbers);

TYPED_TEST(ReduceNumbers, EveryOpMatchesPlainArithmetic) {
  for (const std::size_t ranks : {1u, 2u, 3u, 5u}) {
    const auto inputs = this->make_inputs(ranks, 1000);  // more than one block
    for (const hvd_op op : {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX, HVD_PRODUCT}) {
      const auto output = apply<TypeParam>(op, inputs);
      for (std::size_t i = 0; i < output.size(); ++i) {
        const auto wanted = expected<TypeParam, typename TestFixture::Wide>(op, inputs, i);
        ASSERT_EQ(0, std::memcmp(&output[i], &wanted, sizeof wanted))
            << "op " << op << ", " << ranks << " ranks, element " << i;
      }
    }
  }
}

TEST(Reduce, IntegerSumsAndProductsWrap) {
  EXPECT_EQ(apply<std::uint8_t>(HVD_SUM, {{200}, {100}})[0], 44);
  EXPECT_EQ(apply<std::uint16_t>(HVD_PRODUCT, {{65535}, {65535}})[0], 1);
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(apply<std::int64_t>(HVD_SUM, {{most}, {1}})[0],
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(apply<std::int32_t>(HVD_PRODUCT, {{1 << 20}, {1 << 20}})[0], 0);
}

TEST(Reduce, IntegerAveragesAreExactAndTruncateTowardsZero) {
  EXPECT_EQ(apply<std::uint8_t>(HVD_AVERAGE, {{255}, {254}})[0], 254);
  EXPECT_EQ(apply<std::int8_t>(HVD_AVERAGE, {{-3}, {-2}})[0], -2);
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(apply<std::int64_t>(HVD_AVERAGE, {{most}, {most}, {most}})[0], most);
}

TEST(Reduce, ScaledIntegersSaturateAndTruncateTowardsZero) {
  const auto scaled = [](auto value, double factor) {
    const void* const input[] = {&value};
    reduce(HVD_SUM, hvd::detail::find_type<decltype(value)>(), input, &value, 1, {factor, 1});
    return value;
  };
  EXPECT_EQ(scaled(std::int8_t{100}, 2), 127);
  EXPECT_EQ(scaled(std::int8_t{100}, -2), -128);
  EXPECT_EQ(scaled(std::uint16_t{1}, -1), 0);
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(scaled(most, 1.5), most);
  EXPECT_EQ(scaled(most, -1.5), -most - 1);
  EXPECT_EQ(scaled(std::int64_t{-7}, 0.5), -3);
}

TEST(Reduce, SixteenBitFloatsAreRoundedOnce) {
  // 1 + 2^-11 would round back to 1 if each sum were rounded; twice 2^-11 makes the next value.
  const hvd::float16 one(1.0f);
  const hvd::float16 tiny(0x1p-11f);
  EXPECT_EQ(apply<hvd::float16>(HVD_SUM, {{one}, {tiny}, {tiny}})[0].bits, one.bits + 1);
  const hvd::bfloat16 b_one(1.0f);
  const hvd::bfloat16 b_tiny(0x1p-8f);
  EXPECT_EQ(apply<hvd::bfloat16>(HVD_SUM, {{b_one}, {b_tiny}, {b_tiny}})[0].bits, b_one.bits + 1);
}

TEST(Reduce, MinAndMaxOfANanAreNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const hvd_op op : {HVD_MIN, HVD_MAX}) {
    EXPECT_TRUE(std::isnan(apply<float>(op, {{nan}, {1}, {2}})[0]));
    EXPECT_TRUE(std::isnan(apply<float>(op, {{1}, {nan}, {2}})[0]));
    EXPECT_TRUE(std::isnan(apply<float>(op, {{1}, {2}, {nan}})[0]));
  }
}

TEST(Reduce, BoolsAreReducedByOrAndAndTo0Or1) {
  const std::uint8_t a[] = {0, 0, 7, 1};
  const std::uint8_t b[] = {0, 2, 0, 1};
  const void* const inputs[] = {a, b};
  std::uint8_t output[4];
  const std::vector<std::uint8_t> either{0, 1, 1, 1};
  const std::vector<std::uint8_t> both{0, 0, 0, 1};
  for (const auto& [op, wanted] : {std::pair(HVD_SUM, either), std::pair(HVD_MAX, either),
                                   std::pair(HVD_PRODUCT, both), std::pair(HVD_MIN, both)}) {
    reduce(op, HVD_BOOL, inputs, output, 4);
    EXPECT_EQ(std::vector<std::uint8_t>(output, output + 4), wanted) << "op " << op;
  }
}

// Returns random bits, with NaNs, infinities and subnormals among the floating point numbers.
std::vector<std::uint64_t> random_bits(std::size_t words) {
  std::vector<std::uint64_t> bits(words);
  std::uint64_t state = 88172645463325252u;
  for (auto& word : bits) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    word = state;
  }
  return bits;
}

TEST(Reduce, AllInstructionSetsGiveTheSameBits) {
  constexpr std::size_t kMostWords = 1000;
  for (const InstructionSet set : {InstructionSet::avx2, InstructionSet::avx512}) {
    if (!processor_has(set)) continue;
    for (hvd_type type = HVD_UINT8; type <= HVD_BFLOAT16; ++type) {
      for (const hvd_op op : {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX, HVD_PRODUCT}) {
        if (type == HVD_BOOL && op == HVD_AVERAGE) continue;
        for (const std::size_t ranks : {1u, 2u, 3u}) {
          for (const std::size_t count : {1u, 7u, 8u, 31u, 700u}) {
            const auto bits = random_bits(ranks * kMostWords);
            std::vector<const void*> inputs;
            for (std::size_t rank = 0; rank < ranks; ++rank)
              inputs.push_back(&bits[rank * kMostWords]);
            for (const Scale& scale : {Scale{}, Scale{0.75, 1.5}}) {
              if (type == HVD_BOOL && scale.any()) continue;
              std::vector<std::uint64_t> plain(kMostWords), vectors(kMostWords);
              reduce_with(InstructionSet::plain, op, type, inputs, plain.data(), count, scale);
              reduce_with(set, op, type, inputs, vectors.data(), count, scale);
              ASSERT_EQ(plain, vectors) << instruction_set_name(set) << ", type " << type << ", op "
                                        << op << ", " << ranks << " ranks, " << count;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace libhvd
