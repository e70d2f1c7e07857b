#include "common/tick_clock.hpp"

#include "common/clock.hpp"

#include <gtest/gtest.h>

namespace common {
namespace {

// Between two readings of the clock itself, but for what the counter may be off. Where the machine
// takes the processor away while both are read, the readings of the next millisecond are worse.
TEST(TickClock, GoesWithTheClock) {
  constexpr std::uint64_t kOffNs = 100'000;
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
    close += now + kOffNs >= before && now <= after + kOffNs;
  }
  EXPECT_GE(2 * close, readings) << "of " << readings;
}

}  // namespace
}  // namespace common
