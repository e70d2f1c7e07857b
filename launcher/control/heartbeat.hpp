// Whether the other side of a link lives: a value, told the time by its owner.
#pragma once

#include <chrono>

namespace hvdrun {

// Both sides of a link send a sign of life `interval` after the last. A side that has been silent
// for the time-out is gone: power off and a cut network close no connection.
class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;

  Heartbeat(std::chrono::milliseconds timeout, Clock::time_point now)
      : timeout_(timeout), heard_(now), looked_(now) {}

  static std::chrono::milliseconds interval(std::chrono::milliseconds timeout) {
    return timeout / 5;
  }

  void heard(Clock::time_point now) { heard_ = now; }

  // To be asked every interval. False too where we ourselves have not looked for a while (stopped,
  // or too busy): what the other side has said meanwhile is still to be read.
  bool is_silent(Clock::time_point now) {
    const bool late = now - looked_ > 2 * interval(timeout_);
    looked_ = now;
    if (late) heard_ = now;
    return now - heard_ > timeout_;
  }

 private:
  std::chrono::milliseconds timeout_;
  Clock::time_point heard_;
  Clock::time_point looked_;
};

}  // namespace hvdrun
