// Signs of life on a link: sends them, and measures the silence of the other side.
#pragma once

#include "base/result.hpp"
#include "protocol/link.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace hvdrun {

// If the launcher is silent for this many host time-outs, an agent on another host ends its ranks:
// the launcher's host has crashed, though the connection is open. A launcher that is only delayed
// (stopped, swapped out) is back before that.
inline constexpr int kSilentTimeouts = 15;
// The same if ranks of a job that continues without lost ones wait for the launcher: the host was
// perhaps cut off, and the others continue without it.
inline constexpr int kFenceTimeouts = 4;

// Sends a sign of life on links at an interval, from a thread of its own. So they are sent also
// while the loop's thread waits for a file system, for PMIx or for a process to start.
class HeartbeatSender {
 public:
  HeartbeatSender() = default;
  ~HeartbeatSender();  // waits for the thread
  HeartbeatSender(const HeartbeatSender&) = delete;
  HeartbeatSender& operator=(const HeartbeatSender&) = delete;

  // Starts the thread, which sends the first sign after the interval. Error: it cannot be started.
  Result<void> start(std::chrono::milliseconds interval);

  // The link must outlive this object, or be removed.
  void add(Link& link);
  void remove(const FrameSender& link);

 private:
  void run();

  std::mutex mutex_;  // of the members up to ended_
  std::condition_variable changed_;
  std::vector<Link*> links_;
  std::chrono::milliseconds interval_{0};
  bool ended_ = false;
  std::thread thread_;
};

// How long the other side of a link has been silent while this side listened. A value of one
// thread, without a clock: the owner passes the time.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;

  // Returns the interval at which both sides send a sign of life. On the launcher's own host
  // (`is_here`) only the agent does, and more seldom: nothing is lost between the two.
  static std::chrono::milliseconds interval(std::chrono::milliseconds timeout,
                                            bool is_here = false) {
    return std::max(timeout * (is_here ? 3 : 1) / 5, std::chrono::milliseconds(1));
  }

  Silence(std::chrono::milliseconds timeout, Clock::time_point now, bool is_here = false)
      : interval_(interval(timeout, is_here)), looked_(now) {}

  void heard() { silent_ = Clock::duration::zero(); }

  // Returns whether a sign of life came within the last two intervals, as far as is known.
  bool is_short() const { return silent_ <= 2 * interval_; }

  // Adds the time since the last call, and returns the silence. Call it every interval. At most two
  // intervals are added: after a longer gap this side was stopped or busy, and has not yet read
  // what the other side sent meanwhile.
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
