// libevent with owners: a loop, and events that are removed when their owner goes.
//
// Everything here belongs to the thread that runs the loop, but for Mailbox::post.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

struct event;
struct event_base;

namespace hvdrun {

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  event_base* base() const { return base_; }
  void run();       // until stop(), or until no event is left
  void run_once();  // until something has happened, and been handled
  void stop();      // run() returns after the callback that is running now

 private:
  event_base* base_;
};

// Calls back while a descriptor is readable or writable. Starts disabled; the descriptor is not
// owned and must outlive it.
class FdEvent {
 public:
  enum Interest : short { readable = 0x02, writable = 0x04 };  // EV_READ, EV_WRITE

  FdEvent() = default;
  FdEvent(const EventLoop& loop, int fd, Interest interest, std::function<void()> callback);

  void enable();
  void disable();
  bool enabled() const;
  explicit operator bool() const { return state_ != nullptr; }
  void reset() { state_.reset(); }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Calls back once, `delay` after start(). start() again moves it.
class Timer {
 public:
  Timer(const EventLoop& loop, std::function<void()> callback);

  void start(std::chrono::milliseconds delay);
  void cancel();
  bool pending() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Carries calls from other threads into the loop, in order.
class Mailbox {
 public:
  explicit Mailbox(const EventLoop& loop);
  void post(std::function<void()> call);  // from any thread
  void drain();                           // runs what is waiting, now; on the loop's thread

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
  Fd wakeup_;
  FdEvent event_;
};

}  // namespace hvdrun
