// Carries hvdrun's own stdin to the ranks that are to have it.
//
// Owned by the job, on its loop's thread. What is under way to a rank is bounded: stdin is read
// only while every receiver has room, so an endless stdin costs no memory. In the background a
// terminal is not read (it would stop us): on_foreground() looks again.
#pragma once

#include "base/event_loop.hpp"

#include <functional>
#include <map>
#include <string_view>
#include <vector>

namespace hvdrun {

class InputRelay {
 public:
  struct Events {
    std::function<void(int rank, std::string_view bytes)> send;
    std::function<void(int rank)> close;
  };

  InputRelay(const EventLoop& loop, const std::vector<int>& receivers, Events events);

  void start();
  void add_credit(int rank, std::size_t bytes);
  void remove(int rank);  // the rank has ended
  void on_foreground();

 private:
  void on_readable();
  void resume();
  void finish();
  bool may_read() const;
  std::size_t room() const;

  Events events_;
  std::map<int, std::size_t> under_way_;  // by rank
  bool always_ready_ = false;             // a regular file: epoll(7) does not take it
  bool started_ = false;
  bool finished_ = false;
  FdEvent event_;
  Timer next_read_;  // for what is always ready
};

}  // namespace hvdrun
