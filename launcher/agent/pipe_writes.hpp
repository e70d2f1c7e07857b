// Reports in which order pipes are written to: the kernel sends this thread a signal for each write
// (O_ASYNC and F_SETSIG of fcntl(2)). The signals are blocked and wait in a queue, which update()
// empties. Nothing has to be waited for when a pipe or this process ends, and no other program of
// the user has less because of it.
//
// A user may have RLIMIT_SIGPENDING signals in queues. This process takes at most half of them. If
// the queue is full, on_lost() is called. The kernel also sends a signal when the last writer of a
// pipe closes it. One thread makes it and calls it. Nothing fails: without signals nothing is
// reported.
#pragma once

#include "base/event_loop.hpp"
#include "common/fd.hpp"

#include <unordered_map>
#include <vector>

#include <sys/resource.h>

namespace hvdrun {

class PipeWrites {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_write(int pipe) = 0;  // or its last writer has closed it
    virtual void on_lost() = 0;           // some writes, of any pipe, were not reported
  };

  // Returns the signals that it reads. Nothing else in this process may.
  static std::vector<int> signals();

  explicit PipeWrites(const EventLoop& loop);
  PipeWrites(const PipeWrites&) = delete;
  PipeWrites& operator=(const PipeWrites&) = delete;

  // Watches the pipe of which this is the read end, until unwatch() or its close. `listener` must
  // live until unwatch().
  void watch(int pipe, Listener& listener);
  void unwatch(int pipe);

  // Calls the listeners for all writes since the last call, in their order.
  void update();

  // While it is eager, the loop calls update() by itself. Set it while the pipes are not read.
  void set_eager(bool eager) { eager ? event_.enable() : event_.disable(); }

  // Returns the limit on queued signals from before, which ranks are to have.
  rlimit limit_before() const { return limit_before_; }

 private:
  rlimit limit_before_;
  Fd signals_;
  FdEvent event_;
  std::unordered_map<int, Listener*> listeners_;  // by pipe
};

}  // namespace hvdrun
