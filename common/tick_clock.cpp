#include "common/tick_clock.hpp"

#include "common/clock.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace common {
namespace {

constexpr double kTieNs = 1e6;
// The rate is measured from the first reading on, over no less than this.
constexpr std::uint64_t kLeastNs = 500'000;

bool counter_is_clock() {
#if defined(__x86_64__)
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return file >> name && name == "tsc";
#else
  return false;
#endif
}

}  // namespace

// Who is interrupted between the two reads tries again.
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

std::uint64_t TickClock::tie() {
  const Reading now = usable_ ? read_both() : Reading{0, monotonic_ns()};
  tied_ticks_ = now.ticks;
  tied_ns_ = now.ns;
  last_ns_ = std::max(last_ns_, now.ns);
  const std::uint64_t elapsed = now.ns - first_.ns;
  if (usable_ && elapsed >= kLeastNs) {
    ns_a_tick_ = static_cast<double>(elapsed) / static_cast<double>(now.ticks - first_.ticks);
    tie_after_ = static_cast<std::uint64_t>(kTieNs / ns_a_tick_);
  }
  return last_ns_;
}

}  // namespace common
