// Carries what ranks print from their pipes into output frames, within the launcher's credit.
//
// Owned by the agent, on its loop's thread. The launcher grants credit in bytes for the whole host;
// without credit the pipes are left alone, they fill, and the ranks wait in write(2): that is how a
// slow terminal slows the ranks.
#pragma once

#include "base/event_loop.hpp"
#include "common/fd.hpp"
#include "protocol/link.hpp"

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>

namespace hvdrun {

class OutputForwarder {
 public:
  // `on_closed(rank)` is called each time one of a rank's streams has ended.
  OutputForwarder(const EventLoop& loop, Link& link, std::function<void(int rank)> on_closed);

  void add(int rank, std::uint8_t stream, Fd pipe);
  void add_credit(std::size_t bytes);

  // The launcher is gone: read and drop from now on.
  void discard();

  // Gives up on streams that never end, because a process that is not ours holds them.
  void close_all();

  bool empty() const { return streams_.empty(); }

 private:
  struct StreamState {
    int rank;
    std::uint8_t stream;
    Fd pipe;
    FdEvent event;
    bool enlarged = false;
  };
  using Position = std::list<StreamState>::iterator;

  void on_readable(Position at);
  ssize_t relay(StreamState& stream);
  void close(Position at);
  void set_enabled(bool enabled);

  const EventLoop& loop_;
  Link& link_;
  std::function<void(int)> on_closed_;
  std::list<StreamState> streams_;
  std::int64_t credit_ = 0;  // the last read may have taken a chunk more than there was
  bool discarding_ = false;
};

// Carries input frames into one rank's stdin. Owned by the agent, on its loop's thread.

class StdinWriter {
 public:
  // `on_written(bytes)` says how much has left us, so that the launcher may send more.
  StdinWriter(const EventLoop& loop, Fd pipe, std::function<void(std::size_t bytes)> on_written);

  void write(std::string_view bytes);
  void close();  // end of file for the rank, after what waits

 private:
  void write_out();

  Fd pipe_;
  FdEvent event_;
  std::function<void(std::size_t)> on_written_;
  std::string waiting_;
  bool closing_ = false;
};

}  // namespace hvdrun
