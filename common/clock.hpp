// CLOCK_MONOTONIC, the clock of the status page, and the ends of waits. Plain values, for any
// thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include <poll.h>

namespace common {

// Returns nanoseconds of CLOCK_MONOTONIC: on Linux std::chrono::steady_clock is that clock, with
// both libstdc++ and libc++.
inline std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

// The moment at which a wait gives up. With a `cancel` descriptor the wait also gives up as soon as
// that is readable; the caller keeps it open. poll_until() waits for both.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds from_now, int cancel = -1)
      : end_(std::chrono::steady_clock::now() + from_now), cancel_(cancel) {}

  // Returns the time left for poll(2): milliseconds, rounded up, at least 0.
  int poll_ms() const {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
    return static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }
  bool over() const { return std::chrono::steady_clock::now() >= end_ || cancelled(); }
  bool cancelled() const {
    pollfd entry{cancel_, POLLIN, 0};
    return cancel_ >= 0 && ::poll(&entry, 1, 0) > 0;
  }
  int cancel() const { return cancel_; }  // -1: none

  // Returns the earlier one of this deadline and `from_now`.
  Deadline at_most(std::chrono::milliseconds from_now) const {
    Deadline nearer(from_now, cancel_);
    nearer.end_ = std::min(nearer.end_, end_);
    return nearer;
  }

 private:
  std::chrono::steady_clock::time_point end_;
  int cancel_;
};

// Does poll(2) on the entries until the deadline is over; its result does not count `cancel`.
inline int poll_until(std::vector<pollfd>& entries, const Deadline& deadline) {
  entries.push_back({deadline.cancel(), POLLIN, 0});  // poll(2) ignores -1
  const int ready = ::poll(entries.data(), entries.size(), deadline.poll_ms());
  const bool cancelled = entries.back().revents != 0;
  entries.pop_back();
  return ready > 0 && cancelled ? ready - 1 : ready;
}

}  // namespace common
