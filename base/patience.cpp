#include "base/patience.hpp"

#include <algorithm>

#include <poll.h>

namespace hvdrun {
namespace {

// The longest single wait: so much of a standstill may count.
constexpr std::chrono::milliseconds kSlice{100};

}  // namespace

bool Patience::wait(int fd, short events) {
  while (!wait_a_moment(fd, events))
    if (is_over()) return false;
  return true;
}

bool Patience::wait_a_moment(int fd, short events) {
  while (true) {
    const auto slice = std::clamp<std::chrono::steady_clock::duration>(
        left_, std::chrono::steady_clock::duration::zero(), kSlice);
    const auto before = std::chrono::steady_clock::now();
    pollfd waiting{fd, events, 0};
    const int ready = ::poll(
        &waiting, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(slice).count()));
    left_ -= std::min<std::chrono::steady_clock::duration>(
        std::chrono::steady_clock::now() - before, kSlice);
    if (ready >= 0) return ready > 0;
  }
}

void Standstill::tick() {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  total_ += gap(now);
  last_ = now;
}

Standstill::Clock::duration Standstill::so_far() const {
  const std::lock_guard lock(mutex_);
  return total_ + gap(Clock::now());
}

// A loop that is only busy may be late by an interval.
Standstill::Clock::duration Standstill::gap(Clock::time_point now) const {
  const auto since = now - last_;
  return since > 3 * kInterval ? since - kInterval : Clock::duration::zero();
}

}  // namespace hvdrun
