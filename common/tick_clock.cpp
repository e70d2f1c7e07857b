#include "common/tick_clock.hpp"

#include "common/clock.hpp"
#include "common/file_content.hpp"

#include <algorithm>
#include <string>

namespace common {
namespace {

constexpr double kSyncNs = 1e6;
// The rate is measured from the first reading on, over at least this time.
constexpr std::uint64_t kLeastNs = 500'000;

// Returns whether the kernel uses the counter for its own time.
bool counter_is_clock() {
#if defined(__x86_64__)
  return first_line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource") == "tsc";
#else
  return false;
#endif
}

}  // namespace

// Reads both clocks. Tries again if something interrupts the thread between the two.
TickClock::Reading TickClock::read_both() {
  constexpr int kTries = 10;
  constexpr std::uint64_t kClose = 2000;  // ticks
  Reading best{};
  std::uint64_t apart = UINT64_MAX;
  for (int i = 0; i < kTries && apart > kClose; ++i) {
    const std::uint64_t before = read_ticks();
    const std::uint64_t ns = monotonic_ns();
    const std::uint64_t after = read_ticks();
    if (after - before >= apart) continue;
    apart = after - before;
    best = {before + apart / 2, ns};
  }
  return best;
}

TickClock::TickClock() : usable_(counter_is_clock()) {
  if (usable_) first_ = read_both();
}

std::uint64_t TickClock::sync() {
  const Reading now = usable_ ? read_both() : Reading{0, monotonic_ns()};
  synced_ticks_ = now.ticks;
  synced_ns_ = now.ns;
  last_ns_ = std::max(last_ns_, now.ns);
  const std::uint64_t elapsed = now.ns - first_.ns;
  if (usable_ && elapsed >= kLeastNs) {
    ns_per_tick_ = static_cast<double>(elapsed) / static_cast<double>(now.ticks - first_.ticks);
    sync_after_ = static_cast<std::uint64_t>(kSyncNs / ns_per_tick_);
  }
  return last_ns_;
}

}  // namespace common
