// hvdrun's stdout or stderr: a queue of bytes, and a descriptor that is written without waiting.
//
// The descriptor came from the caller, who may share it with other processes (the shell, the next
// command). All of them share its O_NONBLOCK flag, so that flag is left alone. Instead:
// - A pipe or terminal is opened anew through /proc/self/fd as non-blocking, which makes a flag of
// our own (proc(5)). If
//   that is refused (another user's terminal, after su), poll(2) shows whether PIPE_BUF bytes fit
//   before each is written. If another writer fills the pipe between the two calls, the write can
//   block.
// - A socket is written with MSG_DONTWAIT (send(2)).
// - Regular files and other devices are written plainly: for poll(2) they are always ready.
//
// Loop thread only. SIGPIPE must be ignored in the process. A sink never waits: its owner calls
// pump(), and waits for the descriptor if pump() returns State::blocked. After a failure it drops
// all bytes and counts them.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "output/byte_queue.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

namespace hvdrun {

class Sink {
 public:
  // `name` appears in messages: "hvdrun's stdout".
  Sink(int fd, std::string name);

  ByteQueue& queue() { return queue_; }
  std::size_t pending() const { return queue_.size(); }

  enum class State {
    empty,    // all is written, or was dropped because the sink has failed
    blocked,  // call again when wait_fd() is writable
    more,     // call again soon: this call has written enough, so that others get their turn
  };
  State pump();
  int wait_fd() const { return fresh_ ? fresh_.get() : fd_; }

  bool is_terminal() const { return terminal_; }
  bool is_file() const { return file_; }  // a regular one
  // Returns the terminal's width. Returns 0 if it is not known, or while hvdrun runs in the
  // background there, because the terminal is the shell's then.
  int columns() const;

  // Returns the first failure. Its exit code is 128 + SIGPIPE if the reader has closed the pipe.
  const std::optional<Error>& error() const { return error_; }
  // Returns whether all bytes are dropped because writing has failed.
  bool failed() const { return failed_; }
  // Makes the sink write again after a failure, because the disk may have room now. Ends a line
  // that the failure has cut.
  void try_again();
  // Returns a line for the report about the dropped bytes; nullopt if there are none.
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
  bool file_ = false;
  ByteQueue queue_;
  std::optional<Error> error_;
  bool failed_ = false;
  bool in_line_ = false;  // the last written byte is not a newline
  std::uint64_t dropped_ = 0;
};

// Returns whether both descriptors refer to the same terminal, pipe or file.
bool same_place(int fd, int other);

// Returns whether it is a pipe or a socket.
bool is_pipe(int fd);

}  // namespace hvdrun
