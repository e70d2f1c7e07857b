// Signs of life on a link: sending them, and judging the silence of the other side.
#pragma once

#include "base/result.hpp"
#include "control/link.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace hvdrun {

// Sends a sign of life on links at an interval, from a thread of its own: they keep coming while
// the loop's thread waits for a file system, for PMIx or for a process to start.
class HeartbeatSender {
 public:
  HeartbeatSender() = default;
  ~HeartbeatSender();  // waits for the thread
  HeartbeatSender(const HeartbeatSender&) = delete;
  HeartbeatSender& operator=(const HeartbeatSender&) = delete;

  // Starts the thread. Error: it cannot be started.
  Result<void> start(std::chrono::milliseconds interval);

  // The link must outlive this object.
  void add(Link& link);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Link*> links_;
  std::chrono::milliseconds interval_{0};
  bool ended_ = false;
  std::thread thread_;
};

// How long the other side of a link has been silent while this side listened. A value, told the
// time by its owner.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;

  // Both sides send a sign of life `interval` after the last.
  static std::chrono::milliseconds interval(std::chrono::milliseconds timeout) {
    return std::max(timeout / 5, std::chrono::milliseconds(1));
  }

  Silence(std::chrono::milliseconds timeout, Clock::time_point now)
      : interval_(interval(timeout)), looked_(now) {}

  void heard() { silent_ = Clock::duration::zero(); }

  // To be called every interval. A longer gap counts as two intervals: this side was stopped or
  // busy, and has not read yet what the other side has said meanwhile.
  Clock::duration grow(Clock::time_point now) {
    silent_ += std::min<Clock::duration>(now - looked_, 2 * interval_);
    looked_ = now;
    return silent_;
  }

 private:
  std::chrono::milliseconds interval_;
  Clock::time_point looked_;
  Clock::duration silent_{0};
};

}  // namespace hvdrun
