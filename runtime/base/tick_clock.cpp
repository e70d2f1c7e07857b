#include "base/tick_clock.hpp"

#include "base/clock.hpp"

#include <fstream>
#include <string>

namespace libhvd {
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

TickClock::TickClock() : usable_(counter_is_clock()) {
  if (!usable_) return;
  first_ticks_ = read_ticks();
  first_ns_ = monotonic_ns();
}

void TickClock::tie(std::uint64_t ticks) {
  tied_ticks_ = ticks;
  tied_ns_ = monotonic_ns();
  if (!usable_) return;
  const std::uint64_t elapsed = tied_ns_ - first_ns_;
  if (elapsed < kLeastNs) return;
  ns_a_tick_ = static_cast<double>(elapsed) / static_cast<double>(ticks - first_ticks_);
  tie_after_ = static_cast<std::uint64_t>(kTieNs / ns_a_tick_);
}

}  // namespace libhvd
