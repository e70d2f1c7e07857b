// libevent with owners: a loop, and events that are removed when their owner is destroyed. The
// events are descriptors, timers, calls from other threads, and signals (signalfd(2)).
//
// Everything here belongs to the thread that runs the loop, except Mailbox::post. Nothing returns
// errors: without the descriptors and the memory for it, the process ends (end_process()).
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <csignal>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct event;
struct event_base;

namespace hvdrun {

// Replaces the clock in simulations, where time is a value.
class TimeSource {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~TimeSource() = default;
  virtual Clock::time_point now() const = 0;
  // Does what is due by now. Returns false if nothing was due.
  virtual bool run_due() = 0;
  // Lets time pass until the next thing happens, at most until `limit`. Returns false if nothing
  // will ever happen.
  virtual bool pass(std::optional<Clock::time_point> limit) = 0;
};

class EventLoop {
 public:
  using Clock = std::chrono::steady_clock;

  EventLoop();
  // A loop for a simulation. Timers use `time`; descriptors are checked between its steps.
  explicit EventLoop(TimeSource* time);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  event_base* base() const { return base_; }
  // Each throws what a callback has thrown; it may be called again then.
  void run();       // until stop(), or until no event is left
  void run_once();  // until at least one event has been handled
  void stop();      // run() returns after the callback that is running now
  Clock::time_point now() const;
  // Lets run() throw what the callback that is running now has thrown.
  void end_with(std::exception_ptr thrown) const;

 private:
  friend class Timer;
  struct Simulation;
  bool turn();
  void throw_caught();

  event_base* base_;
  std::unique_ptr<Simulation> simulation_;
  mutable std::exception_ptr thrown_;
};

// Calls back while a descriptor is readable or writable. Starts disabled; the descriptor is not
// owned and must outlive it.
//
// reset(), the destructor and moving another FdEvent into it end it at once, also within its own
// callback: the loop does not touch the descriptor again, which may then be closed or given to
// another thread. The callback itself lives until it returns.
class FdEvent {
 public:
  enum Interest : short { readable = 0x02, writable = 0x04 };  // EV_READ, EV_WRITE

  FdEvent() = default;
  FdEvent(const EventLoop& loop, int fd, Interest interest, std::function<void()> callback);
  FdEvent(FdEvent&&) noexcept = default;
  FdEvent& operator=(FdEvent&& other) noexcept {
    if (this != &other) {
      reset();
      state_ = std::move(other.state_);
    }
    return *this;
  }
  ~FdEvent() { reset(); }

  void enable();
  void disable();
  bool enabled() const;
  explicit operator bool() const { return state_ != nullptr; }
  void reset();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Calls back once, `delay` after start(). Another start() replaces the first. May be destroyed
// within its own callback.
class Timer {
 public:
  struct State;

  Timer(const EventLoop& loop, std::function<void()> callback);
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void start(std::chrono::milliseconds delay);
  void cancel();
  bool pending() const;

 private:
  std::shared_ptr<State> state_;
};

// Calls back when others have taken too long. Time in which this loop did not run is left out (its
// process was stopped, its machine was frozen), because the loop has not yet read what the others
// did meanwhile. Such a time adds at most one second.
class TimeoutTimer {
 public:
  TimeoutTimer(const EventLoop& loop, std::function<void()> callback);

  void start(std::chrono::milliseconds delay);
  void cancel() { tick_.cancel(); }
  bool pending() const { return tick_.pending(); }

 private:
  void on_tick();
  void wait();

  const EventLoop& loop_;
  std::function<void()> callback_;
  EventLoop::Clock::duration left_{0};
  EventLoop::Clock::time_point looked_;
  Timer tick_;
};

// Runs calls from other threads on the loop's thread, in order. The last of them may destroy the
// Mailbox.
class Mailbox {
 public:
  explicit Mailbox(const EventLoop& loop);
  void post(std::function<void()> call);  // from any thread
  void drain();                           // runs waiting calls now; on the loop's thread

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
  Fd wakeup_;
  FdEvent event_;
};

// Returns those of `signals` that are not ignored. A signal that was ignored when we started
// (nohup, a shell's "&") must have no effect, but if it were blocked a SignalWatch would see it.
std::vector<int> not_ignored(const std::vector<int>& signals);

// Blocks the signals for this thread and those it starts later; returns the mask from before.
sigset_t block_signals(const std::vector<int>& signals);

// Calls back from the loop with each signal that arrives. The signals must be blocked.
class SignalWatch {
 public:
  SignalWatch(const EventLoop& loop, const std::vector<int>& signals,
              std::function<void(int signal)> callback);
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Calls back now, without the loop, with each signal that has arrived.
  void poll();

  // Returns the process that sent the signal of the running callback; 0: the kernel.
  pid_t sender() const { return sender_; }

 private:
  Fd fd_;
  std::function<void(int)> callback_;
  pid_t sender_ = 0;
  FdEvent event_;
};

// Returns "SIGTERM", or "signal 40" for a signal without a name.
std::string signal_name(int signal);

}  // namespace hvdrun
