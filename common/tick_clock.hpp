// CLOCK_MONOTONIC at a third of its cost: reads the processor's counter, and compares it with the
// clock every millisecond. For durations in statistics; a reading may be wrong by a microsecond.
// One thread at a time.
//
// Uses the counter only where the kernel uses it for its own time, because the kernel has then
// checked that it runs evenly and equally on all processors. Elsewhere this is monotonic_ns().
#pragma once

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace common {

class TickClock {
 public:
  TickClock();

  // Returns nanoseconds of CLOCK_MONOTONIC. Never less than the last reading.
  std::uint64_t now_ns() {
    const std::uint64_t ticks = read_ticks();
    if (ticks - synced_ticks_ >= sync_after_) return sync();
    const auto since =
        static_cast<std::uint64_t>(static_cast<double>(ticks - synced_ticks_) * ns_per_tick_);
    last_ns_ = std::max(last_ns_, synced_ns_ + since);
    return last_ns_;
  }

 private:
  static std::uint64_t read_ticks() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
  }
  struct Reading {
    std::uint64_t ticks;
    std::uint64_t ns;
  };
  static Reading read_both();
  std::uint64_t sync();

  bool usable_;
  Reading first_{};
  std::uint64_t synced_ticks_ = 0;
  std::uint64_t synced_ns_ = 0;
  std::uint64_t sync_after_ = 0;  // ticks; 0 while the rate of the counter is unknown
  double ns_per_tick_ = 0;
  std::uint64_t last_ns_ = 0;
};

}  // namespace common
