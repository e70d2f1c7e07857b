// Time-outs of threads that wait without an event loop. Time in which this process stood still
// (SIGSTOP, a frozen virtual machine) does not count: what came meanwhile is still to be read.
#pragma once

#include <chrono>
#include <mutex>

namespace hvdrun {

// A time-out for several waits. A value of one thread.
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds time) : left_(time) {}

  // Waits until the descriptor has one of the events of poll(2), an error, or end of file. Returns
  // false if the time is over. A last look is taken before.
  bool wait(int fd, short events);

  // Waits a tenth of a second of it. Returns whether the event has come.
  bool wait_a_moment(int fd, short events);
  bool is_over() const { return left_ <= left_.zero(); }

 private:
  std::chrono::steady_clock::duration left_;
};

// How long this process stood still, for calls that have a time-out of their own. The loop's thread
// calls tick(), any thread asks.
class Standstill {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kInterval{500};

  void tick();  // every interval
  Clock::duration so_far() const;

 private:
  Clock::duration gap(Clock::time_point now) const;

  mutable std::mutex mutex_;
  Clock::time_point last_ = Clock::now();
  Clock::duration total_{0};
};

}  // namespace hvdrun
