// Streams over authenticated connections, with or without TLS. One thread at a time, see Streams. A
// forked child must close what it has inherited of them, or a dead rank's connections would stay
// open.
#pragma once

#include "common/net/connection.hpp"
#include "transport/streams.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <sys/uio.h>

namespace libhvd {

// An authenticated connection to the rank that serves the channel on another host.
struct StreamEnd {
  int channel;
  int host;
  int rank;
  Connection socket;
};

class SocketStreams final : public Streams {
 public:
  // `ends`: one for each channel that this rank serves and each other host.
  SocketStreams(StreamPlan plan, std::vector<StreamEnd> ends);

  void send(int channel, int host, const void* data, std::size_t bytes) override;
  void receive(int channel, int host, void* data, std::size_t bytes) override;
  void mark() override;
  void call_due() override;
  StepBarrier::Turn turn(int most_ms) override;
  void close_in_child() override {
    for (Link& link : links_) link.end.socket.close();
  }

 private:
  struct Link {
    explicit Link(StreamEnd opened) : end(std::move(opened)) {}
    StreamEnd end;
    std::deque<iovec> out;
    std::deque<iovec> in;
    // Bytes since the beginning: given to send(), given before the mark, due, and sent.
    std::uint64_t out_bytes = 0;
    std::uint64_t marked_bytes = 0;
    std::uint64_t due_bytes = 0;
    std::uint64_t sent_bytes = 0;
    bool writable = true;  // as far as is known
    bool readable = true;
    bool lost = false;
    bool garbled = false;  // lost because its data was changed on the way

    bool over() const { return in.empty() && sent_bytes >= due_bytes; }
  };

  Link& link(int channel, int host);
  static bool send_some(Link& link);
  static bool receive_some(Link& link);
  void wait(int most_ms);

  std::vector<Link> links_;
};

}  // namespace libhvd
