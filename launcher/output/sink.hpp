// hvdrun's stdout or stderr: a queue of bytes, and a descriptor that is written without waiting.
//
// The descriptor came from the caller, who may share it with other processes (the shell, the next
// command), so its O_NONBLOCK is left alone: that flag belongs to all who share it. Instead:
// - a pipe or terminal is opened anew through /proc/self/fd, non-blocking, which makes a flag of
// our
//   own (proc(5)). Where that is refused (another user's terminal, after su), poll(2) says whether
//   PIPE_BUF bytes fit before each is written; another writer who fills the pipe between the two
//   can then make us wait.
// - a socket is written with MSG_DONTWAIT (send(2)).
// - regular files and other devices never make one wait in poll's sense (poll(2)): plain writes.
//
// Belongs to the loop's thread; SIGPIPE must be ignored in the process. Does no waiting itself: its
// owner pumps, and waits for the descriptor when pump() says so.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "output/byte_queue.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace hvdrun {

class Sink {
 public:
  // `name` is for people: "hvdrun's stdout".
  Sink(int fd, std::string name);

  ByteQueue& queue() { return queue_; }
  std::size_t pending() const { return queue_.size(); }

  enum class State {
    empty,    // all is written, or was dropped because the sink has failed
    blocked,  // call again once wait_fd() is writable
    more,     // something is left only because this call had written enough
  };
  State pump();
  int wait_fd() const { return fresh_ ? fresh_.get() : fd_; }

  bool is_terminal() const { return terminal_; }
  int columns() const;  // of the terminal; 0: not known

  // The first failure; everything since is dropped. Exit code 128 + SIGPIPE: the reader has gone.
  const std::optional<Error>& error() const { return error_; }
  // One line for the report about what was dropped; none: nothing.
  std::optional<std::string> loss() const;

 private:
  enum class Way { plain, nonblocking, polled, socket };

  void choose_way();
  ssize_t write_some(std::size_t count);
  void give_up(int errno_value);

  int fd_;
  std::string name_;
  Fd fresh_;
  Way way_ = Way::plain;
  bool terminal_ = false;
  ByteQueue queue_;
  std::optional<Error> error_;
  std::uint64_t dropped_ = 0;
};

// Both descriptors lead to the same terminal, pipe or file.
bool same_place(int fd, int other);

}  // namespace hvdrun
