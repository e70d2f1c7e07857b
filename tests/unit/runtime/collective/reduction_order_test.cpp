// ReductionOrder against arithmetic written out here, and a reduction in two parts against one in
// one part.
#include "collective/reduction_order.hpp"

#include "collective/element.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/float16.hpp>

namespace libhvd {
namespace {

using Hosts = std::vector<int>;

template <class T>
std::vector<T> apply(const Hosts& hosts, hvd_op op, hvd_type type,
                     const std::vector<std::vector<T>>& inputs, const Scale& scale = {}) {
  std::vector<const void*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<T> output(inputs[0].size());
  ReductionOrder(hosts).reduce(op, type, pointers, output.data(), output.size(), scale);
  return output;
}

double addend_of(std::size_t rank, std::size_t i) {
  return std::sin(static_cast<double>(i) + 1) * static_cast<double>(rank + 1) + 0.1;
}

TEST(ReductionOrder, AddsTheRanksOfAHostFirstAndThenTheHosts) {
  const std::vector<Hosts> placements{{0, 0, 0},       {0, 1},          {0, 0, 0, 1},
                                      {0, 1, 0, 1, 0}, {0, 1, 2, 3, 4}, {0, 0, 1, 1, 2},
                                      {1, 0},          {1, 0, 0}};
  for (const Hosts& hosts : placements) {
    constexpr std::size_t kCount = 1500;  // several stretches
    std::vector<std::vector<double>> inputs(hosts.size(), std::vector<double>(kCount));
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      for (std::size_t i = 0; i < kCount; ++i) inputs[rank][i] = addend_of(rank, i);
    }
    const auto output = apply(hosts, HVD_SUM, HVD_FLOAT64, inputs);
    for (std::size_t i = 0; i < kCount; ++i) {
      std::vector<double> sums;
      for (int host = 0; host < 5; ++host) {
        bool first = true;
        for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
          if (hosts[rank] != host) continue;
          if (first) sums.push_back(inputs[rank][i]);
          if (!first) sums.back() += inputs[rank][i];
          first = false;
        }
      }
      double total = sums[0];
      for (std::size_t host = 1; host < sums.size(); ++host) total += sums[host];
      ASSERT_EQ(output[i], total) << hosts.size() << " ranks, element " << i;
    }
  }
}

TEST(ReductionOrder, RoundsSixteenBitFloatsOnce) {
  // The partial result of a host is not rounded, so that 2^-11 twice is not lost.
  const hvd::float16 one(1.0f);
  const hvd::float16 tiny(0x1p-11f);
  const hvd::float16 zero(0.0f);
  const auto sum =
      apply<hvd::float16>({0, 0, 1, 1}, HVD_SUM, HVD_FLOAT16, {{one}, {tiny}, {tiny}, {zero}});
  EXPECT_EQ(sum[0].bits, one.bits + 1);
}

TEST(ReductionOrder, AveragesIntegersExactly) {
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(apply<std::int64_t>({0, 0, 1}, HVD_AVERAGE, HVD_INT64, {{most}, {most}, {most}})[0],
            most);
  EXPECT_EQ(apply<std::uint8_t>({0, 1, 0}, HVD_AVERAGE, HVD_UINT8, {{255}, {254}, {255}})[0], 254);
}

TEST(ReductionOrder, AppliesFactorsToEachInputAndToTheResult) {
  const auto output = apply<float>({0, 0, 1}, HVD_AVERAGE, HVD_FLOAT32, {{1}, {2}, {6}}, {2, 10});
  EXPECT_EQ(output[0], (2.0f + 4.0f + 12.0f) / 3 * 10);
}

TEST(ReductionOrder, GivesBoolsOf0Or1) {
  const auto output = apply<std::uint8_t>({0, 0, 1}, HVD_SUM, HVD_BOOL, {{0, 0}, {7, 0}, {2, 0}});
  EXPECT_EQ(output, (std::vector<std::uint8_t>{1, 0}));
}

// With hosts {0, 0, 1} both add in the order of ranks, so all types and ops must have the same
// bits.
TEST(ReductionOrder, GivesTheSameBitsInTwoPartsAsInOne) {
  constexpr std::size_t kCount = 700;
  for (hvd_type type = HVD_UINT8; type <= HVD_BFLOAT16; ++type) {
    for (const hvd_op op : {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX, HVD_PRODUCT}) {
      if (type == HVD_BOOL && op == HVD_AVERAGE) continue;
      std::vector<std::vector<std::uint64_t>> inputs(3, std::vector<std::uint64_t>(kCount));
      std::uint64_t state = 88172645463325252u;
      for (auto& input : inputs) {
        for (auto& word : input) word = state = state * 6364136223846793005u + 1442695040888963407u;
      }
      std::vector<const void*> pointers;
      for (const auto& input : inputs) pointers.push_back(input.data());
      // (a + b) + c is the order of both.
      std::vector<std::uint64_t> whole(kCount);
      std::vector<std::uint64_t> parts(kCount);
      reduce(op, type, pointers, whole.data(), kCount);
      ReductionOrder(Hosts{0, 0, 1}).reduce(op, type, pointers, parts.data(), kCount, {});
      ASSERT_EQ(whole, parts) << type_name(type) << " " << op_name(op);
    }
  }
}

}  // namespace
}  // namespace libhvd
