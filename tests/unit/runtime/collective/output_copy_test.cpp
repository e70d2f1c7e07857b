// OutputCopy: copies with ordinary stores, and with stores that bypass the cache.
#include "collective/output_copy.hpp"

#include "collective/communicator.hpp"
#include "support.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();

TEST(OutputCopy, CopiesEveryLengthToEveryAddress) {
  std::vector<std::byte> from(400);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i % 251 + 1);
  for (const std::size_t touched : {std::size_t{0}, kHuge}) {
    const OutputCopy copy(touched, 2);
    for (std::size_t at = 0; at < 65; ++at) {
      for (const std::size_t bytes : {0u, 1u, 15u, 63u, 64u, 65u, 128u, 200u, 300u}) {
        std::vector<std::byte> to(400), expected(400);
        copy(to.data() + at, from.data() + at % 7, bytes);
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at % 7), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(at));
        ASSERT_EQ(to, expected) << bytes << " bytes at " << at;
      }
    }
    copy(nullptr, nullptr, 0);
  }
}

using Values = std::vector<std::int32_t>;

// Returns `count` values of the rank's input, from row `begin` on.
Values values_of(int rank, std::size_t begin, std::size_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), (rank + 1) * 100'000'000 + static_cast<int>(begin));
  return values;
}

void append(Values& values, const Values& more) {
  values.insert(values.end(), more.begin(), more.end());
}

// 24 MB exceed a rank's share of the cache on most machines.
TEST(OutputCopy, CollectivesGiveRightOutputsThatAreLargerThanTheCache) {
  constexpr std::size_t kRows = 2'000'003;
  test::run_ranks_everywhere(3, [](Communicator& communicator) {
    const int own = communicator.rank();
    Values input = values_of(own, 0, kRows);
    Values output(3 * kRows);
    Values expected;
    ASSERT_TRUE(
        communicator
            .allgather(input.data(), kRows, 1, HVD_INT32, output.data(), output.size(), nullptr, {})
            .ok());
    for (int rank = 0; rank < 3; ++rank) append(expected, values_of(rank, 0, kRows));
    ASSERT_TRUE(output == expected);

    const std::size_t splits[] = {1, kRows - 3, 2};
    const std::size_t begins[] = {0, 1, kRows - 2};
    output.assign(3 * splits[own], 0);
    expected.clear();
    ASSERT_TRUE(communicator
                    .alltoall(input.data(), splits, kRows, 1, HVD_INT32, output.data(),
                              output.size(), nullptr, {})
                    .ok());
    for (int rank = 0; rank < 3; ++rank)
      append(expected, values_of(rank, begins[own], splits[own]));
    ASSERT_TRUE(output == expected);

    output.assign(kRows, 0);
    expected = values_of(5, 0, kRows);
    for (std::size_t i = 0; i < kRows; ++i) expected[i] += 2 * static_cast<int>(i);
    ASSERT_TRUE(
        communicator.allreduce(input.data(), output.data(), kRows, HVD_INT32, HVD_SUM, {}).ok());
    ASSERT_TRUE(output == expected);

    ASSERT_TRUE(communicator.broadcast(input.data(), kRows, HVD_INT32, 1, {}).ok());
    ASSERT_TRUE(input == values_of(1, 0, kRows));
  });
}

}  // namespace
}  // namespace libhvd
