#include "common/tick_clock.hpp"

#include "common/clock.hpp"

#include <gtest/gtest.h>

namespace common {
namespace {

// Each value must lie between two readings of the clock, within the tolerance of the counter. The
// values of a millisecond after a preemption may be worse, so half of them must be close.
TEST(TickClock, FollowsTheClock) {
  constexpr std::uint64_t kToleranceNs = 100'000;
  TickClock ticks;
  std::uint64_t last = 0;
  std::size_t readings = 0;
  std::size_t close = 0;
  const std::uint64_t end = monotonic_ns() + 30'000'000;
  while (monotonic_ns() < end) {
    const std::uint64_t before = monotonic_ns();
    const std::uint64_t now = ticks.now_ns();
    const std::uint64_t after = monotonic_ns();
    ASSERT_GE(now, last);
    last = now;
    ++readings;
    close += now + kToleranceNs >= before && now <= after + kToleranceNs;
  }
  EXPECT_GE(2 * close, readings) << "of " << readings;
}

}  // namespace
}  // namespace common
