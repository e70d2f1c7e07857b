// CLOCK_MONOTONIC, the clock of the status page, and deadlines by it. Plain values, for any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace common {

// Returns nanoseconds of CLOCK_MONOTONIC: on Linux std::chrono::steady_clock is that clock, with
// both libstdc++ and libc++.
inline std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

// The moment at which a wait gives up.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds from_now)
      : end_(std::chrono::steady_clock::now() + from_now) {}

  // Returns the time left for poll(2): milliseconds, rounded up, at least 0.
  int poll_ms() const {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
    return static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }
  bool over() const { return std::chrono::steady_clock::now() >= end_; }

  // Returns the earlier one of this deadline and `from_now`.
  Deadline at_most(std::chrono::milliseconds from_now) const {
    Deadline nearer(from_now);
    nearer.end_ = std::min(nearer.end_, end_);
    return nearer;
  }

 private:
  std::chrono::steady_clock::time_point end_;
};

}  // namespace common
