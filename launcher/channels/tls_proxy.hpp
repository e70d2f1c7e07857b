// Carries bytes both ways between a TLS connection and a local socket, so that a `Link`, which
// knows descriptors only, can be spoken over TLS.
//
// Bounded: a side is read only while what it said before has been passed on, so at most one record
// a direction is held. The end of either side is passed on after all that came before it; then the
// proxy ends, closes both, and says so once.
//
// Used on its loop's thread only. SIGPIPE must be ignored or blocked.
#pragma once

#include "base/event_loop.hpp"
#include "channels/tls_stream.hpp"
#include "common/fd.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class TlsProxy {
 public:
  // Without a text: both sides have closed in good order. With one: the connection was lost.
  // The proxy may be destroyed in it.
  using OnEnd = std::function<void(std::optional<std::string> lost)>;

  // The stream's handshake is done; `local` is a non-blocking stream socket.
  TlsProxy(const EventLoop& loop, TlsStream stream, Fd local, OnEnd on_end);
  TlsProxy(const TlsProxy&) = delete;
  TlsProxy& operator=(const TlsProxy&) = delete;

  // Why the connection was lost, known before the local side is told that it has ended.
  const std::optional<std::string>& lost() const { return lost_; }

 private:
  // Bytes that one side has said and the other has not taken yet.
  class Held {
   public:
    bool empty() const { return begin_ == bytes_.size(); }
    const char* data() const { return bytes_.data() + begin_; }
    std::size_t size() const { return bytes_.size() - begin_; }
    void put(const char* data, std::size_t size) { bytes_.assign(data, data + size); }
    void take(std::size_t size);

   private:
    std::vector<char> bytes_;
    std::size_t begin_ = 0;
  };

  void go_on();           // moves what can be moved, then waits for what cannot
  bool from_tls();        // reads one record; returns whether there may be more now
  bool from_local();      // the same in the other direction
  bool flush_to_local();  // returns whether all is written
  bool flush_to_tls();
  void update_waiting();
  bool finished() const;
  void consider_waiting();
  void lose(const std::string& why);
  void end();

  const EventLoop& loop_;
  std::optional<TlsStream> stream_;  // until the end
  Fd local_;
  OnEnd on_end_;
  Held to_local_;
  Held to_tls_;
  bool tls_closed_ = false;    // the other host sends no more
  bool local_closed_ = false;  // the local end sends no more
  bool said_end_to_tls_ = false;
  bool said_end_to_local_ = false;
  bool local_deaf_ = false;  // nobody reads there any more
  bool read_wants_write_ = false;
  bool ended_ = false;
  std::size_t unsent_ = 0;  // when we last looked
  std::optional<std::string> lost_;
  FdEvent tls_readable_;
  FdEvent tls_writable_;
  FdEvent local_readable_;
  FdEvent local_writable_;
  Timer linger_;
};

}  // namespace hvdrun
