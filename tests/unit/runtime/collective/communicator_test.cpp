// The collectives on one host and on two. Ranks are threads, so that ThreadSanitizer sees them all.
#include "collective/communicator.hpp"

#include "sum_in_order.hpp"
#include "support.hpp"

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

// Sizes around the limit of the small path, of one chunk, and of several chunks with a rest.
const std::vector<std::size_t> kElementNumbers{0, 1, 7, 1023, 1024, 1025, 8192, 8193, 50001};
const std::vector<int> kSizes{1, 2, 3, 4, 5};

double value_of(int rank, std::size_t i) {
  return std::sin(static_cast<double>(i) + 1) * (rank + 1) + 0.1 * rank;
}

std::vector<double> make_values(int rank, std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank, i);
  return values;
}

TEST(Allreduce, SumsInTheOrderOfRanksAndHostsAtEverySize) {
  for (const int size : kSizes) {
    for (const std::size_t count : kElementNumbers) {
      test::run_ranks_everywhere(size, [&](Communicator& communicator) {
        const auto hosts = test::hosts_of(communicator);
        const auto input = make_values(communicator.rank(), count);
        std::vector<double> output(count, -1);
        const auto outcome =
            communicator.allreduce(input.data(), output.data(), count, HVD_FLOAT64, HVD_SUM, {});
        ASSERT_TRUE(outcome.ok()) << outcome.error().message;
        for (std::size_t i = 0; i < count; ++i) {
          const double sum = test::sum_in_order(hosts, [=](int rank) { return value_of(rank, i); });
          ASSERT_EQ(output[i], sum) << size << " ranks, " << count << " elements, at " << i;
        }
      });
    }
  }
}

// A prefix is divided into other chunks and slices than the whole, but must have the same bits.
TEST(Allreduce, GivesTheSameBitsHoweverTheDataIsDivided) {
  constexpr std::size_t kCount = 30000;
  test::run_ranks_everywhere(3, [&](Communicator& communicator) {
    std::vector<float> input(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      input[i] = static_cast<float>(value_of(communicator.rank(), i));
    }
    std::vector<float> whole(kCount);
    ASSERT_TRUE(
        communicator.allreduce(input.data(), whole.data(), kCount, HVD_FLOAT32, HVD_AVERAGE, {})
            .ok());
    for (const std::size_t count : {100u, 2049u, 16385u, 29999u}) {
      std::vector<float> part(count);
      ASSERT_TRUE(
          communicator.allreduce(input.data(), part.data(), count, HVD_FLOAT32, HVD_AVERAGE, {})
              .ok());
      ASSERT_EQ(0, std::memcmp(part.data(), whole.data(), count * sizeof(float)));
    }
  });
}

TEST(Allreduce, WorksInPlaceOnUnalignedBuffersOfEveryType) {
  for (hvd_type type = HVD_UINT8; type <= HVD_BFLOAT16; ++type) {
    // One size for the small path, one for several chunks.
    for (const std::size_t count : {5u, 70000u}) {
      test::run_ranks_everywhere(3, [&](Communicator& communicator) {
        // Bytes of 0: the sum of zeros is zero in every type.
        std::vector<unsigned char> bytes(count * 8 + 1, 0);
        unsigned char* const odd = bytes.data() + 1;
        const auto outcome = communicator.allreduce(odd, odd, count, type, HVD_SUM, {});
        ASSERT_TRUE(outcome.ok()) << outcome.error().message;
        ASSERT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0), 0) << "type " << type;
      });
    }
  }
}

TEST(Allreduce, ConvertsBoolsTo0Or1EvenWithOneRank) {
  test::run_ranks_everywhere(1, [&](Communicator& communicator) {
    unsigned char values[] = {0, 5, 1};
    ASSERT_TRUE(communicator.allreduce(values, values, 3, HVD_BOOL, HVD_SUM, {}).ok());
    EXPECT_EQ(values[1], 1);
  });
}

TEST(Broadcast, CopiesTheRootsValuesToEveryRank) {
  for (const int size : kSizes) {
    for (const std::size_t count : kElementNumbers) {
      for (int root = 0; root < size; ++root) {
        test::run_ranks_everywhere(size, [&](Communicator& communicator) {
          auto values = make_values(communicator.rank(), count);
          const auto outcome = communicator.broadcast(values.data(), count, HVD_FLOAT64, root, {});
          ASSERT_TRUE(outcome.ok()) << outcome.error().message;
          ASSERT_EQ(values, make_values(root, count));
        });
      }
    }
  }
}

TEST(Allgather, ConcatenatesTheRowsInTheOrderOfRanks) {
  for (const int size : kSizes) {
    for (const std::size_t unit : {0u, 1u, 333u, 9000u}) {
      test::run_ranks_everywhere(size, [&](Communicator& communicator) {
        const auto rows_of = [&](int rank) { return unit * static_cast<std::size_t>(rank % 3); };
        constexpr std::size_t kRow = 2;
        std::vector<double> wanted;
        std::size_t total = 0;
        for (int rank = 0; rank < size; ++rank) {
          const auto part = make_values(rank, rows_of(rank) * kRow);
          wanted.insert(wanted.end(), part.begin(), part.end());
          total += rows_of(rank);
        }
        const std::size_t own = rows_of(communicator.rank());
        const auto input = make_values(communicator.rank(), own * kRow);
        std::vector<double> output(total * kRow);
        std::vector<std::size_t> rows(static_cast<std::size_t>(size));
        const auto outcome = communicator.allgather(input.data(), own, kRow, HVD_FLOAT64,
                                                    output.data(), total, rows.data(), {});
        ASSERT_TRUE(outcome.ok()) << outcome.error().message;
        ASSERT_EQ(output, wanted);
        for (int rank = 0; rank < size; ++rank) {
          ASSERT_EQ(rows[static_cast<std::size_t>(rank)], rows_of(rank));
        }
      });
    }
  }
}

TEST(Barrier, NoRankReturnsBeforeAllHaveCalled) {
  constexpr int kSize = 4;
  for (const std::vector<int>& hosts : {std::vector{0, 0, 0, 0}, std::vector{0, 1, 2, 1}}) {
    std::atomic<int> arrived{0};
    test::run_ranks_on(hosts, [&](Communicator& communicator) {
      for (int round = 1; round <= 50; ++round) {
        ++arrived;
        ASSERT_TRUE(communicator.barrier({}).ok());
        ASSERT_GE(arrived.load(), round * kSize);
        ASSERT_TRUE(communicator.barrier({}).ok());
      }
    });
  }
}

// The calls reuse the areas of the segment. Data of an earlier call must not appear.
TEST(Collectives, GiveRightResultsInALongSequence) {
  constexpr int kSize = 4;
  test::run_ranks_everywhere(kSize, [&](Communicator& communicator) {
    for (int round = 0; round < 60; ++round) {
      const auto count = static_cast<std::size_t>((round * 977) % 20000);
      std::vector<std::int32_t> values(count, communicator.rank() + round);
      ASSERT_TRUE(
          communicator.allreduce(values.data(), values.data(), count, HVD_INT32, HVD_SUM, {}).ok());
      ASSERT_EQ(values, std::vector<std::int32_t>(count, 6 + kSize * round));
      std::int64_t from_root = communicator.rank() == round % kSize ? round : -1;
      ASSERT_TRUE(communicator.broadcast(&from_root, 1, HVD_INT64, round % kSize, {}).ok());
      ASSERT_EQ(from_root, round);
      std::vector<std::int32_t> large(count * 20, communicator.rank());
      std::iota(large.begin(), large.end(), communicator.rank());
      const int root = (round + 1) % kSize;
      ASSERT_TRUE(communicator.broadcast(large.data(), large.size(), HVD_INT32, root, {}).ok());
      for (std::size_t i = 0; i < large.size(); ++i)
        ASSERT_EQ(large[i], root + static_cast<int>(i)) << i << " of " << large.size();
      const bool pause = round % 3 == 0;
      ASSERT_TRUE(!pause || communicator.barrier({}).ok());
    }
  });
}

}  // namespace
}  // namespace libhvd
