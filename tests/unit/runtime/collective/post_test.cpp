// Posts: small broadcasts on one host, whose root does not wait. Tests their data, and the errors
// of calls that do not match.
#include "collective/communicator.hpp"
#include "support.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

constexpr int kRanks = 4;

Result<void> broadcast(Communicator& communicator, std::vector<std::uint8_t>& bytes, int root) {
  return communicator.broadcast(bytes.data(), bytes.size(), HVD_UINT8, root, {});
}

// Waits for an event of another thread. Returns false if it does not occur within 30 s.
template <class Event>
bool await(Event event) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!event()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(Post, RootReturnsBeforeTheOthersCall) {
  constexpr int kCalls = 10;
  std::atomic<int> returned{0};
  test::run_ranks(2, [&](Communicator& communicator) {
    ASSERT_TRUE(communicator.barrier({}).ok());
    const bool sends = communicator.rank() == 1;
    EXPECT_TRUE(sends || await([&] { return returned == kCalls; }));
    for (int call = 0; call < kCalls; ++call) {
      const auto value = static_cast<std::uint8_t>(call + 1);
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(call * call * 50),
                                      sends ? value : 0);
      ASSERT_TRUE(broadcast(communicator, bytes, 1).ok());
      ASSERT_EQ(bytes, std::vector<std::uint8_t>(bytes.size(), value));
      if (sends) ++returned;
    }
  });
}

// Makes calls of all sizes and roots, mixed with allreduces. Ranks are delayed at random.
TEST(Post, DataArrivesWhicheverRankIsAhead) {
  constexpr int kCalls = 3000;
  test::run_ranks(kRanks, [](Communicator& communicator) {
    std::mt19937 random(7);  // the same on all ranks
    std::mt19937 own(static_cast<unsigned>(communicator.rank()));
    std::vector<double> large(3000);
    std::vector<double> sums(large.size());
    for (int call = 0; call < kCalls; ++call) {
      for (unsigned late = own() % 4 == 0 ? own() % 20 : 0; late > 0; --late)
        std::this_thread::yield();
      const auto value = static_cast<std::uint8_t>(call % 251 + 1);
      const auto kind = random() % 8;
      if (kind == 0) {  // uses the input areas; posts do not
        std::fill(large.begin(), large.end(), value);
        ASSERT_TRUE(
            communicator
                .allreduce(large.data(), sums.data(), large.size(), HVD_FLOAT64, HVD_SUM, {})
                .ok());
        ASSERT_EQ(sums, std::vector<double>(sums.size(), value * kRanks));
        continue;
      }
      const int root = static_cast<int>(random() % kRanks);
      // Sizes that fit a slot, that fit the result area, and that need the areas of all ranks.
      const std::size_t most[] = {80, 80, 80, 5000, 5000, 5000, 600'000};
      std::vector<std::uint8_t> bytes(random() % most[kind - 1],
                                      communicator.rank() == root ? value : 0);
      ASSERT_TRUE(broadcast(communicator, bytes, root).ok());
      ASSERT_EQ(bytes, std::vector<std::uint8_t>(bytes.size(), value)) << "call " << call;
    }
  });
}

// What the call returns on each rank, and what the next call returns.
struct Errors {
  std::vector<std::string> first = std::vector<std::string>(kRanks);
  std::set<std::string> next;
};

std::string message_of(const Result<void>& outcome) {
  return outcome.ok() ? "success" : outcome.error().message;
}

// Makes the call after a barrier, so that it can be a post. Then calls a barrier, and a sum that
// must work.
Errors errors_of(const std::function<Result<void>(Communicator&)>& call) {
  Errors errors;
  std::mutex mutex;
  test::run_ranks(kRanks, [&](Communicator& communicator) {
    EXPECT_TRUE(communicator.barrier({}).ok());
    const std::string first = message_of(call(communicator));
    const std::string next = message_of(communicator.barrier({}));
    int value = 1;
    EXPECT_TRUE(communicator.allreduce(&value, &value, 1, HVD_INT32, HVD_SUM, {}).ok());
    EXPECT_EQ(value, kRanks);
    const std::lock_guard lock(mutex);
    errors.first[static_cast<std::size_t>(communicator.rank())] = first;
    errors.next.insert(next);
  });
  return errors;
}

TEST(PostError, OfADifferentCountIsReportedOnThatRankAndThenOnAll) {
  const Errors errors = errors_of([](Communicator& communicator) {
    std::vector<std::uint8_t> bytes(communicator.rank() == 2 ? 12 : 10, 7);
    const auto outcome = broadcast(communicator, bytes, 0);
    EXPECT_EQ(bytes, std::vector<std::uint8_t>(bytes.size(), 7));
    return outcome;
  });
  EXPECT_EQ(errors.first[0], "success");
  EXPECT_EQ(errors.first[2],
            "broadcast: the ranks do not agree: the count is 10 on rank 0 and 12 on rank 2");
  EXPECT_EQ(errors.next,
            (std::set<std::string>{"an earlier call has failed: broadcast: the ranks do not agree: "
                                   "the count is 10 on ranks 0-1,3 and 12 on rank 2"}));
}

TEST(PostError, OfADifferentRootIsReportedOnThatRankAndThenOnAll) {
  const Errors errors = errors_of([](Communicator& communicator) {
    std::vector<std::uint8_t> bytes(5);
    return broadcast(communicator, bytes, communicator.rank() == 3 ? 1 : 0);
  });
  EXPECT_EQ(errors.first[3],
            "broadcast: the ranks do not agree: the root is 0 on rank 1 and 1 on rank 3");
  ASSERT_EQ(errors.next.size(), 1u);
  EXPECT_NE(errors.next.begin()->find("the root is 0 on ranks 0-2 and 1 on rank 3"),
            std::string::npos);
}

TEST(PostError, OfADifferentCollectiveIsReportedOnThatRankAndThenOnAll) {
  const Errors errors = errors_of([](Communicator& communicator) {
    std::vector<std::uint8_t> bytes(5);
    if (communicator.rank() == 1) return communicator.barrier({});
    return broadcast(communicator, bytes, 0);
  });
  const std::string text =
      "the ranks have called different collectives: the call is broadcast on ranks 0,2-3 and "
      "barrier on rank 1";
  EXPECT_EQ(errors.first[1], text);
  EXPECT_EQ(errors.next, (std::set<std::string>{"an earlier call has failed: " + text}));
}

TEST(PostError, OfAnInvalidArgumentIsReportedOnThatRankAndThenOnAll) {
  const Errors errors = errors_of([](Communicator& communicator) {
    std::vector<std::uint8_t> bytes(5);
    return communicator.broadcast(communicator.rank() == 2 ? nullptr : bytes.data(), 5, HVD_UINT8,
                                  0, {});
  });
  EXPECT_EQ(errors.first[2], "broadcast: rank 2: the buffer is null with a count of 5");
  EXPECT_EQ(errors.next,
            (std::set<std::string>{
                "an earlier call has failed: broadcast: rank 2: its arguments are not valid"}));
}

TEST(PostError, OfARankThatHasJoinedIsReportedByTheNextCall) {
  test::run_ranks(kRanks, [](Communicator& communicator) {
    ASSERT_TRUE(communicator.barrier({}).ok());
    if (communicator.rank() == 3) {
      for (bool joined = false; !joined;) {
        const Result<bool> outcome = communicator.join();
        ASSERT_TRUE(outcome.ok()) << outcome.error().message;
        joined = *outcome;
      }
      return;
    }
    std::vector<std::uint8_t> bytes(5);
    EXPECT_EQ(message_of(broadcast(communicator, bytes, 0)), "success");
    int value = 1;
    const auto sum = [&] {
      return communicator.allreduce(&value, &value, 1, HVD_INT32, HVD_SUM, {});
    };
    EXPECT_NE(message_of(sum()).find("rank 3 has joined"), std::string::npos);
    EXPECT_EQ(message_of(sum()), "success");
    EXPECT_EQ(value, kRanks - 1);
    for (bool joined = false; !joined;) {
      const Result<bool> outcome = communicator.join();
      ASSERT_TRUE(outcome.ok()) << outcome.error().message;
      joined = *outcome;
    }
  });
}

}  // namespace
}  // namespace libhvd
