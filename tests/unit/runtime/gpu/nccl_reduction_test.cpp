// Which reductions NCCL does, and which go through host memory.
#include "gpu/nccl_reduction.hpp"

#include <bit>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

TEST(NcclReduction, SupportsPlainOperations) {
  const auto sum = find_nccl_reduction(HVD_FLOAT32, HVD_SUM, {}, 4);
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->type, NcclType::float32);
  EXPECT_EQ(sum->op, NcclOp::sum);
  EXPECT_FALSE(sum->has_factor);
  EXPECT_EQ(find_nccl_reduction(HVD_BFLOAT16, HVD_AVERAGE, {}, 4)->op, NcclOp::average);
  EXPECT_EQ(find_nccl_reduction(HVD_INT64, HVD_MIN, {}, 4)->op, NcclOp::min);
  EXPECT_EQ(find_nccl_reduction(HVD_UINT8, HVD_MAX, {}, 4)->op, NcclOp::max);
  EXPECT_EQ(find_nccl_reduction(HVD_INT8, HVD_PRODUCT, {}, 4)->op, NcclOp::product);
}

TEST(NcclReduction, RefusesTypesWithoutArithmetic) {
  for (const hvd_type type : {HVD_UINT16, HVD_INT16, HVD_BOOL})
    EXPECT_FALSE(find_nccl_reduction(type, HVD_SUM, {}, 2)) << type;
}

TEST(NcclReduction, RefusesAveragesOfIntegersBecauseTheyWouldWrap) {
  for (const hvd_type type : {HVD_UINT8, HVD_INT8, HVD_INT32, HVD_INT64})
    EXPECT_FALSE(find_nccl_reduction(type, HVD_AVERAGE, {}, 2)) << type;
}

TEST(NcclReduction, CombinesFactorsIntoOneBeforeASum) {
  const Scale scale{.before = 0.25, .after = 6};
  const auto sum = find_nccl_reduction(HVD_FLOAT32, HVD_SUM, scale, 3);
  ASSERT_TRUE(sum && sum->has_factor);
  EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(sum->factor)), 1.5f);
  const auto average = find_nccl_reduction(HVD_FLOAT64, HVD_AVERAGE, scale, 3);
  ASSERT_TRUE(average && average->has_factor);
  EXPECT_EQ(average->op, NcclOp::sum);
  EXPECT_EQ(std::bit_cast<double>(average->factor), 0.5);
  EXPECT_FALSE(find_nccl_reduction(HVD_FLOAT32, HVD_MAX, scale, 3));
  EXPECT_FALSE(find_nccl_reduction(HVD_FLOAT32, HVD_PRODUCT, scale, 3));
}

TEST(NcclReduction, RefusesFactorsThatASixteenBitTypeCannotRepresent) {
  EXPECT_TRUE(find_nccl_reduction(HVD_FLOAT16, HVD_SUM, {.before = 1.0 / 1024}, 2));
  EXPECT_FALSE(find_nccl_reduction(HVD_FLOAT16, HVD_SUM, {.before = 1.0 / 3}, 2));
  EXPECT_TRUE(find_nccl_reduction(HVD_BFLOAT16, HVD_SUM, {.before = 1.5}, 2));
  EXPECT_FALSE(find_nccl_reduction(HVD_BFLOAT16, HVD_SUM, {.before = 1.001}, 2));
}

}  // namespace
}  // namespace libhvd
