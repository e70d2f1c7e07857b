// Forwards the standard streams of an agent's ranks: their output into output frames, and input
// frames into their stdin.
//
// The agent owns both classes, on its loop thread. The launcher grants credit in bytes for the
// output of the whole host. Without credit the pipes are not read, so they fill and the ranks wait
// in write(2). In this way a slow terminal slows the ranks. Nothing returns errors: a stream that
// fails is closed.
#pragma once

#include "agent/pipe_writes.hpp"
#include "agent/stream_order.hpp"
#include "base/event_loop.hpp"
#include "common/fd.hpp"
#include "protocol/link.hpp"

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

namespace hvdrun {

class OutputForwarder {
 public:
  // Calls `on_closed(rank)` each time one of a rank's streams has ended.
  OutputForwarder(const EventLoop& loop, Link& link, std::function<void(int rank)> on_closed);

  void add(int rank, std::uint8_t stream, Fd pipe);  // stream: 1 or 2, stdout or stderr
  // Adds both streams of a rank, whose writes are sent in their order. `order`: nullptr if that
  // does not matter. `err` is invalid if the rank has a terminal.
  void add(int rank, Fd out, Fd err, std::shared_ptr<StreamOrder> order);
  void add_credit(std::size_t bytes);

  // Reads and drops all output from now on. Call it when the launcher is gone.
  void discard();

  // Closes all streams. Some may never end, because a process that is not ours holds them.
  void close_all();

  bool empty() const { return streams_.empty(); }

  // Reports the writes to the pipes of ranks whose two streams are ordered.
  PipeWrites& writes() { return writes_; }

 private:
  struct StreamState {
    int rank;
    std::uint8_t stream;
    Fd pipe;
    FdEvent event;
    bool enlarged = false;
    StreamState* other = nullptr;  // the rank's other stream, if they are ordered and it is open
    std::shared_ptr<StreamOrder> order = nullptr;
  };
  using Position = std::list<StreamState>::iterator;

  Position insert(int rank, std::uint8_t stream, Fd pipe);
  void on_readable(Position at);
  ssize_t relay(StreamState& stream);
  // Sends what is in the stream's pipe and in the other one. Returns false if one of them is empty.
  bool relay_both(StreamState& stream);
  void end_order(StreamState& stream);
  void spend(std::size_t bytes);
  void close(Position at);
  void set_enabled(bool enabled);

  const EventLoop& loop_;
  Link& link_;
  std::function<void(int)> on_closed_;
  PipeWrites writes_;
  std::list<StreamState> streams_;
  std::int64_t credit_ = 0;  // bytes; negative after a read of more than was left
  bool discarding_ = false;
};

// Writes input frames into one rank's stdin. After the rank has closed its stdin, it drops them.
class StdinWriter {
 public:
  // Calls `on_written(bytes)` with the bytes that were written or dropped, so that the launcher may
  // send more.
  StdinWriter(const EventLoop& loop, Fd pipe, std::function<void(std::size_t bytes)> on_written);

  void write(std::string_view bytes);
  void close();  // gives the rank end of file after the bytes that wait

  // Returns the bytes that the rank has read from the pipe.
  std::uint64_t taken() const;

 private:
  void write_out();
  void close_pipe();

  Fd pipe_;
  Fd rest_;  // the pipe's other end, after pipe_ was closed: what the rank has not read
  std::uint64_t written_ = 0;
  FdEvent event_;
  std::function<void(std::size_t)> on_written_;
  std::string waiting_;
  bool closing_ = false;
};

}  // namespace hvdrun
