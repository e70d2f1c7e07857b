// A descriptor that becomes readable ends each wait of a start. Without it each would take a
// minute.
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/mesh.hpp"
#include "support.hpp"

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace libhvd {
namespace {

class Cancel : public testing::Test {
 protected:
  int descriptor() const { return event_.get(); }

  // Runs a wait on another thread, cancels it, and returns its error.
  template <class Wait>
  std::string error_of(const Wait& wait) const {
    auto ended = std::async(std::launch::async, wait);
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(descriptor(), &one, sizeof one), ssize_t{sizeof one});
    const auto outcome = ended.get();
    return outcome.ok() ? "no error" : outcome.error().message;
  }

  Result<std::unique_ptr<Bootstrap>> open_as(int rank, int cancel) const {
    BootstrapOptions options;
    options.timeout = std::chrono::minutes(1);
    options.cancel = cancel;
    return open_bootstrap(test::make_environment({{"HVD_RANK", std::to_string(rank)},
                                                  {"HVD_SIZE", "2"},
                                                  {"HVD_JOB_KEY", std::string(64, 'a')},
                                                  {"MASTER_ADDR", "127.0.0.1"},
                                                  {"HVD_PORT", std::to_string(port_.number())}}),
                          options);
  }

  // Rank 1 is silent while rank 0 exchanges, or the reverse.
  void cancel_exchange_of(int rank) const {
    auto silent = std::async(std::launch::async, [&] { return open_as(1 - rank, -1); });
    const auto own = open_as(rank, descriptor());
    const auto other = silent.get();
    ASSERT_TRUE(own.ok() && other.ok());
    EXPECT_EQ(error_of([&] { return or_cancelled((*own)->exchange("text"), descriptor()); }),
              start_cancelled().message);
  }

  const test::ReservedPort port_;
  const Fd event_{::eventfd(0, EFD_CLOEXEC)};
};

TEST_F(Cancel, EndsRank0sWaitForTheOthers) {
  EXPECT_EQ(error_of([&] { return open_as(0, descriptor()); }), start_cancelled().message);
}

TEST_F(Cancel, EndsTheSearchForRank0) {
  EXPECT_EQ(error_of([&] { return open_as(1, descriptor()); }), start_cancelled().message);
}

TEST_F(Cancel, EndsAnExchangeOfRank0) {
  cancel_exchange_of(0);
}

TEST_F(Cancel, EndsAnExchangeOfAnotherRank) {
  cancel_exchange_of(1);
}

// Of two hosts the first waits for the second, which cannot reach the first.
TEST_F(Cancel, EndsTheWaitForAnotherHost) {
  const Address loopback = resolve("127.0.0.1")->front();
  const auto nowhere = loopback.with_port(static_cast<std::uint16_t>(port_.number()));
  const std::vector<HostEntry> hosts{{0, "a", {nowhere}}, {1, "b", {nowhere}}};
  const JobSecret secret{"job", std::vector<std::uint8_t>(32, 7), 2};
  for (const int own : {0, 1}) {
    auto listener = HostListener::open("", loopback);
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    EXPECT_EQ(error_of([&] {
                const Deadline deadline(std::chrono::minutes(1), descriptor());
                return or_cancelled(join_hosts(std::move(*listener), hosts, own, secret, deadline),
                                    descriptor());
              }),
              start_cancelled().message)
        << own;
  }
}

}  // namespace
}  // namespace libhvd
