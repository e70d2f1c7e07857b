// Carries bytes both ways between a TLS connection and a local socket, in hvdrun-link: the agent's
// link is a socket pair, and TLS is ended only when nothing of the agent is left.
//
// Its memory is bounded: it reads a side only when the data before was written to the other one, so
// it holds at most one record a direction. It passes on the end of a side after that side's data.
// Then the proxy ends, closes both sides and reports that once.
//
// It follows the agent's frames, because it may add one after the agent's end: how that was.
//
// Use it on its loop's thread only.
#pragma once

#include "base/event_loop.hpp"
#include "common/fd.hpp"
#include "common/net/connection.hpp"
#include "protocol/frame.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class TlsProxy {
 public:
  // Called once. `lost`: why the connection was lost; nullopt if both sides have closed normally.
  // It may destroy the proxy.
  using OnEnd = std::function<void(std::optional<std::string> lost)>;

  // `tls`: its handshake is done. `local`: a non-blocking stream socket. After the local side has
  // closed the proxy ends when the other side has done so or has all data, or when its host has
  // acknowledged nothing for `linger`. If it ended at once, the kernel would drop data.
  TlsProxy(const EventLoop& loop, Connection tls, Fd local, OnEnd on_end,
           std::chrono::milliseconds linger = std::chrono::seconds(3));
  TlsProxy(const TlsProxy&) = delete;
  TlsProxy& operator=(const TlsProxy&) = delete;

  // Sends this frame when the local side has closed, after its bytes. Not if the local side was cut
  // off in the middle of a frame.
  void say_last(FrameType type, std::string_view payload);

  // No process writes to the local side any more. Call it then, because the proxy does not see that
  // while the other side takes no data.
  void local_has_ended();

 private:
  // Bytes that were read from one side and not yet written to the other.
  class Unwritten {
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

  void move_all();        // moves what can be moved, then waits for the rest
  bool from_tls();        // reads one record; returns whether there may be more now
  bool from_local();      // the same in the other direction
  bool flush_to_local();  // returns whether all is written
  bool flush_to_tls();
  void update_events();
  bool finished() const;
  void end_or_linger();
  void lose(const std::string& why);
  void end();

  const EventLoop& loop_;
  Connection tls_;  // until the end
  Fd local_;
  OnEnd on_end_;
  Unwritten to_local_;
  Unwritten to_tls_;
  FrameBounds from_local_;
  std::string last_;           // a frame
  bool tls_closed_ = false;    // the other host sends no more
  bool local_closed_ = false;  // the local end sends no more
  bool sent_end_to_tls_ = false;
  bool sent_end_to_local_ = false;
  bool local_unread_ = false;  // the local end reads no more
  bool ended_ = false;
  std::size_t unsent_ = 0;  // bytes, at the last look of end_or_linger()
  std::optional<std::string> lost_;
  FdEvent tls_readable_;
  FdEvent tls_writable_;
  FdEvent local_readable_;
  FdEvent local_writable_;
  const std::chrono::milliseconds linger_time_;
  Timer linger_;
  Timer again_;  // after kTurns: the connection may hold bytes that the loop does not see
};

}  // namespace hvdrun
