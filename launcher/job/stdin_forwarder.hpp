// Forwards hvdrun's own stdin to the ranks that read it.
//
// The job owns it, for all its attempts. Each attempt gets the input from its beginning, because
// its program starts anew: a file is read again, and of a pipe the bytes are kept for it, up to
// kMostKept. Keys of a terminal are not given twice. Loop thread only.
//
// The bytes in flight to a rank are bounded: stdin is read only while every receiver has room, so
// an endless stdin costs no memory. In the background a terminal is not read, because that would
// stop hvdrun; on_foreground() tries again.
//
// Input that no rank reads belongs to hvdrun's caller, such as the loop of a shell. A file's offset
// does not move until finish(), which moves it by as much as ranks have read.
#pragma once

#include "base/event_loop.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

class StdinForwarder {
 public:
  static constexpr std::size_t kMostKept = 16u << 20;

  struct Events {
    std::function<void(int rank, std::string_view bytes)> send;
    std::function<void(int rank)> close;  // end of file, or stdin cannot be read
  };

  // `keeps`: the bytes of a pipe are kept for further attempts.
  StdinForwarder(const EventLoop& loop, bool keeps);

  // Starts to forward to the ranks of an attempt.
  void start(const std::vector<int>& receivers, Events events);
  void stop();  // call it when they have all ended

  void add_credit(int rank, std::size_t bytes);
  // Call it when the rank has ended, also after stop(). `taken`: the bytes that it has read.
  void remove(int rank, std::uint64_t taken);
  void on_foreground();

  // Returns whether the next attempt gets only the rest of the input, because a pipe had more than
  // can be kept.
  bool has_lost_its_beginning() const { return lost_beginning_; }

  // Leaves to the caller what no rank has read. Call it once, at the end of the job. Returns the
  // number of bytes for which that is impossible: those that came from a pipe.
  std::uint64_t finish();

 private:
  enum class Source {
    terminal,
    file,    // a regular file
    stream,  // a pipe, a socket, a device
  };
  static Source find_source();

  void on_readable();
  ssize_t read_next(char* bytes, std::size_t most);
  void keep(std::string_view bytes);
  void resume();
  void pause();
  void close_all();
  bool may_read() const;
  std::size_t room() const;

  const Source source_;
  const bool keeps_;
  const off_t begin_;  // the file's offset at the start
  Events events_;
  std::map<int, std::size_t> under_way_;  // by rank
  std::uint64_t position_ = 0;            // of this attempt, from the beginning of the input
  std::uint64_t read_ = 0;                // from a stream, in all attempts
  std::uint64_t taken_ = 0;               // the most that a rank has read
  std::string kept_;                      // the beginning of a stream
  bool lost_beginning_ = false;
  const bool always_ready_;  // epoll(7) does not take it
  bool at_end_ = false;      // of a stream or a terminal
  bool closed_ = false;      // the ranks of this attempt have got the end of file
  FdEvent event_;
  Timer next_read_;  // if it is always ready
};

}  // namespace hvdrun
