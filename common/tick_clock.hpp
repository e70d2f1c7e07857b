// CLOCK_MONOTONIC at a third of its price: the processor's counter, tied to the clock anew every
// millisecond. For durations in statistics; a reading may be a microsecond off. One thread at a
// time.
//
// The counter is only used where the kernel keeps its own time by it, having found that it runs
// evenly and alike on all processors; elsewhere this is monotonic_ns().
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

  // Nanoseconds of CLOCK_MONOTONIC. Not below the reading before.
  std::uint64_t now_ns() {
    const std::uint64_t ticks = read_ticks();
    if (ticks - tied_ticks_ >= tie_after_) return tie();
    const auto since =
        static_cast<std::uint64_t>(static_cast<double>(ticks - tied_ticks_) * ns_a_tick_);
    last_ns_ = std::max(last_ns_, tied_ns_ + since);
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
  std::uint64_t tie();

  bool usable_;
  Reading first_{};
  std::uint64_t tied_ticks_ = 0;
  std::uint64_t tied_ns_ = 0;
  std::uint64_t tie_after_ = 0;  // ticks; 0: always, as the counter's rate is not known
  double ns_a_tick_ = 0;
  std::uint64_t last_ns_ = 0;
};

}  // namespace common
