// Bytes on their way to a descriptor: appended at the end, dropped from the front, always
// contiguous so that one write(2) takes all. Owned by one sink, used on the loop's thread.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

class ByteQueue {
 public:
  const char* data() const { return bytes_.get() + head_; }
  std::size_t size() const { return tail_ - head_; }
  bool empty() const { return head_ == tail_; }
  std::string_view view() const { return {data(), size()}; }

  // Room for `count` bytes behind the last; what is put there counts once added() says so. Valid
  // until the next call of room().
  char* room(std::size_t count) {
    if (capacity_ - tail_ < count) make_room(count);
    return bytes_.get() + tail_;
  }
  void added(std::size_t count) { tail_ += count; }

  void append(std::string_view bytes) {
    if (bytes.empty()) return;
    std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
    added(bytes.size());
  }

  void drop(std::size_t count);
  void clear() { drop(size()); }

 private:
  void make_room(std::size_t count);

  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

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

  // The first failure. Exit code 128 + SIGPIPE: the reader has gone.
  const std::optional<Error>& error() const { return error_; }
  // Whether everything is dropped, because writing has failed.
  bool failed() const { return failed_; }
  // Writes again after a failure: the disk may have room by now. A line that the failure has cut is
  // ended first.
  void try_again();
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
  bool failed_ = false;
  bool in_line_ = false;  // the last byte that was written is no newline
  std::uint64_t dropped_ = 0;
};

// Both descriptors lead to the same terminal, pipe or file.
bool same_place(int fd, int other);

}  // namespace hvdrun
