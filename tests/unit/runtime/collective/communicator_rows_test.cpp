// Reducescatter, alltoall, and the scale factors of reductions.
#include "collective/communicator.hpp"
#include "sum_in_order.hpp"
#include "support.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

using Values = std::vector<double>;

double element_of(int rank, std::size_t i) {
  return std::sin(static_cast<double>(i) + 1) * (rank + 1);
}

Values make_rows(int rank, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = element_of(rank, i);
  return values;
}

TEST(Reducescatter, GivesEachRankItsShareOfTheSum) {
  for (const int size : {1, 2, 3, 5}) {
    for (const std::size_t rows : {0u, 1u, 4u, 7u, 5001u}) {
      test::run_ranks_everywhere(size, [&](Communicator& communicator) {
        constexpr std::size_t kRow = 5;
        const auto ranks = static_cast<std::size_t>(size);
        const auto own = static_cast<std::size_t>(communicator.rank());
        const std::size_t share = rows / ranks + (own < rows % ranks ? 1 : 0);
        const std::size_t first = rows / ranks * own + std::min(own, rows % ranks);
        const auto hosts = test::hosts_of(communicator);
        const Values input = make_rows(communicator.rank(), rows * kRow);
        Values output(share * kRow + 1, -1);
        const Result<void> done = communicator.reducescatter(input.data(), rows, kRow, HVD_FLOAT64,
                                                             HVD_SUM, output.data(), {});
        ASSERT_TRUE(done.ok()) << done.error().message;
        for (std::size_t i = 0; i < share * kRow; ++i) {
          const double sum = test::sum_in_order(
              hosts, [=](int rank) { return element_of(rank, first * kRow + i); });
          ASSERT_EQ(output[i], sum) << size << " ranks, " << rows << " rows, at " << i;
        }
        ASSERT_EQ(output.back(), -1) << "written past the share";
      });
    }
  }
}

TEST(Reducescatter, GivesTheBitsOfAllreduceFromAnUnalignedInput) {
  test::run_ranks_everywhere(3, [](Communicator& communicator) {
    constexpr std::size_t kRows = 30'000;
    std::vector<char> bytes(kRows * sizeof(float) + 1);
    char* const odd = bytes.data() + 1;
    for (std::size_t i = 0; i < kRows; ++i) {
      const auto value = static_cast<float>(element_of(communicator.rank(), i));
      std::memcpy(odd + i * sizeof value, &value, sizeof value);
    }
    std::vector<float> all(kRows), share(kRows / 3);
    ASSERT_TRUE(communicator.allreduce(odd, all.data(), kRows, HVD_FLOAT32, HVD_AVERAGE, {}).ok());
    ASSERT_TRUE(
        communicator.reducescatter(odd, kRows, 1, HVD_FLOAT32, HVD_AVERAGE, share.data(), {}).ok());
    const auto begin = all.begin() + communicator.rank() * static_cast<int>(share.size());
    EXPECT_TRUE(std::equal(share.begin(), share.end(), begin));
  });
}

// Rank a sends a*unit + b*unit/2 rows to rank b.
std::size_t rows_between(int from, int to, std::size_t unit) {
  return static_cast<std::size_t>(from) * unit + static_cast<std::size_t>(to) * unit / 2;
}

TEST(Alltoall, DeliversRowsInTheOrderOfTheirSenders) {
  for (const int size : {1, 2, 3, 5}) {
    for (const std::size_t unit : {0u, 1u, 2u, 3333u}) {
      test::run_ranks_everywhere(size, [&](Communicator& communicator) {
        constexpr std::size_t kRow = 3;
        const int own = communicator.rank();
        std::vector<std::size_t> splits, wanted_received;
        Values input, wanted;
        for (int peer = 0; peer < size; ++peer) {
          splits.push_back(rows_between(own, peer, unit));
          input.insert(input.end(), splits.back() * kRow, own * 100 + peer);
          wanted_received.push_back(rows_between(peer, own, unit));
          wanted.insert(wanted.end(), wanted_received.back() * kRow, peer * 100 + own);
        }
        Values output(wanted.size() + 1, -1);
        std::vector<std::size_t> received(splits.size());
        const Result<void> done = communicator.alltoall(
            input.data(), splits.data(), input.size() / kRow, kRow, HVD_FLOAT64, output.data(),
            wanted.size() / kRow, received.data(), {});
        ASSERT_TRUE(done.ok()) << done.error().message;
        EXPECT_EQ(received, wanted_received);
        EXPECT_EQ(output.back(), -1);
        output.pop_back();
        EXPECT_EQ(output, wanted);
      });
    }
  }
}

// Rank 0 has equal splits and need not publish them; rank 1 sends all rows to itself.
TEST(Alltoall, WorksWhenOnlyOneRankHasEqualSplits) {
  for (const std::size_t rows : {1u, 4u, 5u, 5'000u, 60'000u}) {
    test::run_ranks_everywhere(2, [&](Communicator& communicator) {
      const bool even = communicator.rank() == 0;
      const std::vector<std::size_t> splits{even ? rows : 0, even ? rows : 2 * rows};
      std::vector<std::uint8_t> input(2 * rows, even ? 1 : 2);
      const std::size_t coming = even ? rows : 3 * rows;
      std::vector<std::uint8_t> output(coming), wanted(rows, 1);
      wanted.resize(coming, 2);
      const Result<void> done = communicator.alltoall(
          input.data(), splits.data(), 2 * rows, 1, HVD_UINT8, output.data(), coming, nullptr, {});
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_EQ(output, wanted);
    });
  }
}

TEST(Alltoall, DividesEvenlyWithoutSplits) {
  test::run_ranks_everywhere(4, [](Communicator& communicator) {
    std::vector<std::int32_t> input(8), output(8);
    std::iota(input.begin(), input.end(), communicator.rank() * 10);
    ASSERT_TRUE(
        communicator.alltoall(input.data(), nullptr, 8, 1, HVD_INT32, output.data(), 8, nullptr, {})
            .ok());
    const int own = 2 * communicator.rank();
    EXPECT_EQ(output, (std::vector<std::int32_t>{own, own + 1, own + 10, own + 11, own + 20,
                                                 own + 21, own + 30, own + 31}));
  });
}

// Returns the message of a call that must fail alike on all ranks. Then checks that a barrier
// works.
std::string message_of(int size, const std::function<Result<void>(Communicator&)>& call) {
  std::vector<std::string> messages(static_cast<std::size_t>(size));
  test::run_ranks_everywhere(size, [&](Communicator& communicator) {
    const Result<void> done = call(communicator);
    ASSERT_FALSE(done.ok());
    messages[static_cast<std::size_t>(communicator.rank())] = done.error().message;
    ASSERT_TRUE(communicator.barrier({}).ok());
  });
  for (const std::string& message : messages) EXPECT_EQ(message, messages[0]);
  return messages[0];
}

TEST(Alltoall, InvalidArgumentsFailOnEveryRankWithTheSameMessage) {
  const auto call = [](std::vector<std::size_t> splits, std::size_t rows, std::size_t room) {
    return [=](Communicator& communicator) {
      const std::vector<std::int32_t> input(20);
      std::vector<std::int32_t> output(40);
      const bool odd = communicator.rank() == 1;
      const std::vector<std::size_t> good{2, 2};
      return communicator.alltoall(input.data(), odd ? splits.data() : good.data(), odd ? rows : 4,
                                   1, HVD_INT32, output.data(), odd ? room : 8, nullptr,
                                   {.name = "x"});
    };
  };
  EXPECT_EQ(message_of(2, call({1, 2}, 4, 8)),
            "alltoall \"x\": rank 1: the splits do not add up to the 4 rows");
  EXPECT_EQ(message_of(2, call({5, SIZE_MAX}, 4, 8)),
            "alltoall \"x\": rank 1: the splits do not add up to the 4 rows");
  EXPECT_EQ(message_of(2, call({2, 2}, 4, 3)),
            "alltoall \"x\": the output is too small: 4 rows come, but there is room for 3 on rank "
            "1");
  EXPECT_EQ(message_of(2,
                       [](Communicator& communicator) {
                         std::int32_t values[3] = {}, output[3];
                         return communicator.alltoall(values, nullptr, 3, 1, HVD_INT32, output, 3,
                                                      nullptr, {});
                       }),
            "alltoall: rank 0: 3 rows cannot be divided evenly among 2 ranks, and there are no "
            "splits; rank 1: 3 rows cannot be divided evenly among 2 ranks, and there are no "
            "splits");
}

TEST(Factors, AreAppliedBeforeAndAfterTheReduction) {
  for (const int size : {1, 2, 3}) {
    for (const std::size_t count : {3u, 100u, 40'000u}) {
      test::run_ranks_everywhere(size, [&](Communicator& communicator) {
        std::vector<float> values(count, static_cast<float>(communicator.rank() + 1));
        ASSERT_TRUE(communicator
                        .allreduce(values.data(), values.data(), count, HVD_FLOAT32, HVD_MAX,
                                   {.scale = {-2, 10}})
                        .ok());
        ASSERT_EQ(values, std::vector<float>(count, -20));
      });
    }
  }
}

TEST(Factors, OfFloat16AreAppliedInFloat32) {
  test::run_ranks_everywhere(2, [](Communicator& communicator) {
    // 0x3c00 is 1.0. The sum 2 * 40000 exceeds 65504, the largest binary16 number.
    std::uint16_t value = 0x3c00;
    ASSERT_TRUE(
        communicator.allreduce(&value, &value, 1, HVD_FLOAT16, HVD_SUM, {.scale = {40000, 0x1p-4}})
            .ok());
    EXPECT_EQ(value, 0x6ce2);  // 5000
  });
}

// They are multiplied in double and truncated towards zero, on each rank and after the sum.
TEST(Factors, IntegersAreTruncatedBeforeAndAfterTheReduction) {
  test::run_ranks_everywhere(3, [](Communicator& communicator) {
    const auto reduced = [&](std::int32_t value, hvd_op op, Scale scale) {
      EXPECT_TRUE(communicator.allreduce(&value, &value, 1, HVD_INT32, op, {.scale = scale}).ok());
      return value;
    };
    const int rank = communicator.rank();
    EXPECT_EQ(reduced(2 * rank + 1, HVD_SUM, {0.5, 1}), 0 + 1 + 2);
    EXPECT_EQ(reduced(-2 * rank - 1, HVD_SUM, {0.5, 1}), -3);
    EXPECT_EQ(reduced(rank, HVD_SUM, {1, 0.5}), 1);
    EXPECT_EQ(reduced(5, HVD_AVERAGE, {2, 0.5}), 5);
    EXPECT_EQ(reduced(rank, HVD_MAX, {10, 0.25}), 5);
    EXPECT_EQ(reduced(1 << 30, HVD_MIN, {4, 1}), std::numeric_limits<std::int32_t>::max());
    std::vector<std::uint8_t> many(10'000, 100);
    EXPECT_TRUE(communicator
                    .allreduce(many.data(), many.data(), many.size(), HVD_UINT8, HVD_AVERAGE,
                               {.scale = {2, 0.5}})
                    .ok());
    EXPECT_EQ(many, std::vector<std::uint8_t>(many.size(), 100));
  });
}

TEST(Factors, InvalidFactorsFailOnEveryRankWithTheSameMessage) {
  const auto call = [](hvd_type type, Scale odd) {
    return [=](Communicator& communicator) {
      double value = 0;
      const Scale own = communicator.rank() == 1 ? odd : Scale{0.5, 1};
      return communicator.allreduce(&value, &value, 1, type, HVD_SUM, {.scale = own});
    };
  };
  EXPECT_EQ(message_of(2, call(HVD_FLOAT32, {0.5, 2})),
            "allreduce: the ranks do not agree: the factor after is 1.000000 on rank 0 and "
            "2.000000 on rank 1");
  EXPECT_EQ(
      message_of(2, call(HVD_BOOL, {0.5, 1})),
      "allreduce: rank 0: there are no factors for bool; rank 1: there are no factors for bool");
  EXPECT_EQ(message_of(2, call(HVD_FLOAT64, {std::numeric_limits<double>::infinity(), 1})),
            "allreduce: rank 1: a factor is not finite");
}

}  // namespace
}  // namespace libhvd
