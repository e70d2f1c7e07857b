// Random calls, some of which do not match between ranks. No rank hangs, no successful call has
// wrong data, and no rank writes where another still reads (ThreadSanitizer reports that).
#include "collective/communicator.hpp"
#include "support.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

constexpr int kDisagreeingRanks = 3;

enum class Kind { broadcast, allreduce, allgather, reducescatter, alltoall, barrier };

// One call of one rank.
struct DrawnCall {
  Kind kind = Kind::barrier;
  std::size_t count = 0;  // elements of a rank, or in alltoall and allgather rows of one element
  int root = 0;
  bool wrong_argument = false;
};

// Draws a call. Many are small broadcasts, because these are posts.
DrawnCall draw(std::mt19937& random) {
  DrawnCall call;
  call.kind = random() % 2 == 0 ? Kind::broadcast : static_cast<Kind>(random() % 6);
  const auto size = random() % 16;
  call.count = random() % (size == 0 ? 40'000 : size < 4 ? 3000 : 16);
  call.count -= call.count % kDisagreeingRanks;
  call.root = static_cast<int>(random() % kDisagreeingRanks);
  return call;
}

// Makes the calls of one rank and checks their results. Rank r contributes value + r.
class Caller {
 public:
  explicit Caller(Communicator& communicator) : communicator_(communicator) {}

  Result<void> make(const DrawnCall& call, std::int32_t value) {
    const auto ranks = static_cast<std::size_t>(kDisagreeingRanks);
    input_.assign(call.count, value + communicator_.rank());
    output_.assign(call.count * ranks, -1);
    const void* const input = call.wrong_argument ? nullptr : input_.data();
    switch (call.kind) {
      case Kind::broadcast:
        return communicator_.broadcast(call.wrong_argument ? nullptr : input_.data(), call.count,
                                       HVD_INT32, call.root, {});
      case Kind::allreduce:
        return communicator_.allreduce(input, output_.data(), call.count, HVD_INT32, HVD_SUM, {});
      case Kind::allgather:
        return communicator_.allgather(input, call.count, 1, HVD_INT32, output_.data(),
                                       output_.size(), nullptr, {});
      case Kind::reducescatter:
        return communicator_.reducescatter(input, call.count, 1, HVD_INT32, HVD_SUM, output_.data(),
                                           {});
      case Kind::alltoall:
        return communicator_.alltoall(input, nullptr, call.count, 1, HVD_INT32, output_.data(),
                                      output_.size(), nullptr, {});
      case Kind::barrier:
        return communicator_.barrier({});
    }
    return {};
  }

  // Returns whether the call's result is right.
  bool is_right(const DrawnCall& call, std::int32_t value) const {
    const std::int32_t sum = kDisagreeingRanks * value + 3;
    const auto all = [](auto begin, std::size_t count, std::int32_t expected) {
      return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(count),
                         [&](std::int32_t element) { return element == expected; });
    };
    const std::size_t share = call.count / kDisagreeingRanks;
    switch (call.kind) {
      case Kind::broadcast:
        return all(input_.begin(), call.count, value + call.root);
      case Kind::allreduce:
        return all(output_.begin(), call.count, sum);
      case Kind::reducescatter:
        return all(output_.begin(), share, sum);
      case Kind::allgather:
        return has_parts(call.count, value);
      case Kind::alltoall:
        return has_parts(share, value);
      case Kind::barrier:
        return true;
    }
    return false;
  }

 private:
  // Returns whether the output has `count` elements of each rank, in the order of ranks.
  bool has_parts(std::size_t count, std::int32_t value) const {
    for (std::size_t at = 0; at < count * kDisagreeingRanks; ++at) {
      if (output_[at] != value + static_cast<std::int32_t>(at / count)) return false;
    }
    return true;
  }

  Communicator& communicator_;
  std::vector<std::int32_t> input_;
  std::vector<std::int32_t> output_;
};

class RandomDisagreements : public testing::TestWithParam<unsigned> {};

TEST_P(RandomDisagreements, DoNotCorruptLaterCalls) {
  constexpr int kCalls = 400;
  test::run_ranks_everywhere(kDisagreeingRanks, [&](Communicator& communicator) {
    std::mt19937 random(GetParam());  // the same on all ranks
    std::mt19937 own(static_cast<unsigned>(communicator.rank()) + GetParam());
    Caller caller(communicator);
    bool matched = true;  // all calls since the last one that succeeded on all ranks
    for (int number = 0; number < kCalls; ++number) {
      for (unsigned late = own() % 3 == 0 ? own() % 20 : 0; late > 0; --late)
        std::this_thread::yield();
      DrawnCall call = draw(random);
      DrawnCall other = draw(random);
      other.wrong_argument = random() % 4 == 0;
      const bool differs = random() % 4 == 0;
      const int differing = static_cast<int>(random() % kDisagreeingRanks);
      const std::int32_t value = number * 10;
      const DrawnCall& made = differs && communicator.rank() == differing ? other : call;
      const Result<void> outcome = caller.make(made, value);
      if (!outcome.ok()) {
        ASSERT_NE(outcome.error().status, HVD_ERROR_PEER) << outcome.error().message;
        ASSERT_TRUE(differs || !matched) << "call " << number << ": " << outcome.error().message;
      }
      const bool has_result = outcome.ok() && !differs;
      ASSERT_TRUE(!has_result || caller.is_right(call, value)) << "call " << number;
      // A small broadcast compares the call with the root's only.
      matched = !differs && (matched || (call.kind != Kind::broadcast));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomDisagreements, testing::Range(1U, 9U));

}  // namespace
}  // namespace libhvd
