// Forwards hvdrun's own stdin to the ranks that read it.
//
// The job owns it, for all its attempts: the ranks of a restart get what has not been read yet, and
// the end of file is read once. Loop thread only. The bytes in flight to a rank are bounded: stdin
// is read only while every receiver has room, so an endless stdin costs no memory. In the
// background a terminal is not read, because that would stop hvdrun; on_foreground() tries again.
#pragma once

#include "base/event_loop.hpp"

#include <functional>
#include <map>
#include <string_view>
#include <vector>

namespace hvdrun {

class StdinForwarder {
 public:
  struct Events {
    std::function<void(int rank, std::string_view bytes)> send;
    std::function<void(int rank)> close;  // end of file, or stdin cannot be read
  };

  explicit StdinForwarder(const EventLoop& loop);

  // Starts to forward to the ranks of an attempt.
  void start(const std::vector<int>& receivers, Events events);
  void stop();  // call it when they have all ended

  void add_credit(int rank, std::size_t bytes);
  void remove(int rank);  // call it when the rank has ended
  void on_foreground();

 private:
  void on_readable();
  void resume();
  void pause();
  void close_all();
  bool may_read() const;
  std::size_t room() const;

  Events events_;
  std::map<int, std::size_t> under_way_;  // by rank
  bool always_ready_ = false;             // a regular file: epoll(7) does not take it
  bool at_end_ = false;                   // of stdin
  FdEvent event_;
  Timer next_read_;  // if it is always ready
};

}  // namespace hvdrun
