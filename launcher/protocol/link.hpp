// The link between launcher and agent: frames over one byte stream, non-blocking both ways. The
// stream is a pair of pipes, a socket pair, or a connection over TLS.
//
// Belongs to the loop's thread, except send_alive(). Reading never stops: credits for output and
// input limit what the other side may have sent and we have not processed. So output never delays
// control frames. A lost stream is reported once, through on_close.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"
#include "common/net/connection.hpp"
#include "protocol/frame.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

struct evbuffer;

namespace hvdrun {

// A connection over TLS that carries a link. Whoever started the agent shares it, to ask why it was
// lost. The link's thread.
struct TlsLink {
  Connection connection;
  std::string lost;  // why; "" while it is not, and if the other side closed it
};

// One end of a byte stream both ways: a descriptor for each direction. Over ssh they are two pipes.
// Of a socket they are duplicates. With `tls` both are closed.
struct LinkEnd {
  Fd in;
  Fd out;
  bool text_first = false;  // see FrameReader
  std::shared_ptr<TlsLink> tls = nullptr;

  int read_fd() const { return tls ? tls->connection.get() : in.get(); }
  int write_fd() const { return tls ? tls->connection.get() : out.get(); }
};

// A payload for many links that is in memory once.
using SharedPayload = std::shared_ptr<const std::string>;

// Sends frames to the other side.
class FrameSender {
 public:
  virtual ~FrameSender() = default;
  virtual void send(FrameType type, std::uint32_t destination, std::string_view payload) = 0;
  virtual void send_shared(FrameType type, std::uint32_t destination,
                           const SharedPayload& payload) = 0;
  // Returns what the other side sent instead of its first frame; see FrameReader.
  virtual std::string text() const { return {}; }
};

class Link final : public FrameSender {
 public:
  struct Events {
    std::function<void(const Frame&)> on_frame;
    // The other side closed the stream (nullopt) or the stream is lost. Called once; no other
    // callback follows. If only the received data is damaged, sent frames
    // still go out.
    std::function<void(std::optional<Error>)> on_close;
  };

  // All descriptors must be non-blocking. A connection over TLS is ended with the link, even if
  // others have descriptors of it.
  Link(const EventLoop& loop, LinkEnd end, Events events);
  ~Link() override;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void send(FrameType type, std::uint32_t destination, std::string_view payload) override;
  void send_shared(FrameType type, std::uint32_t destination,
                   const SharedPayload& payload) override;

  // Sends a frame whose payload is in two parts.
  void send_parts(FrameType type, std::uint32_t destination, std::string_view prefix,
                  std::string_view rest);

  // While it lives, frames wait, so that the kernel gets them together.
  class Hold {
   public:
    explicit Hold(Link& link) : link_(link) { link_.held_ = true; }
    ~Hold() { link_.end_hold(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Link& link_;
  };

  // Sends a sign of life. From any thread. Sends nothing while bytes still wait for the kernel,
  // because these are a sign of life, too.
  void send_alive();

  // Sends an output frame of `prefix` and at most `limit` bytes, which it reads from `fd`. Returns
  // what read(2) returned (0: end of file, -1: see errno). Sends no frame unless that is above 0.
  ssize_t send_read(FrameType type, std::uint32_t destination, std::string_view prefix, int fd,
                    std::size_t limit);

  // Waits until the kernel has taken everything sent, at most `timeout`. Blocks the loop, so it is
  // for the last frame before this process ends.
  void flush(std::chrono::milliseconds timeout);

  // Closes the stream, before this process ends: a thread that hangs may keep it from ending. Calls
  // nothing.
  void hang_up();

  bool closed() const { return closed_; }

  std::string text() const override { return reader_.text(); }

 private:
  void on_readable();
  // Reads once. Returns whether there may be more to read; false also if the link was closed, and
  // maybe destroyed.
  bool read_some();
  ssize_t receive(char* to, std::size_t size);
  bool take_end(ssize_t got);
  std::string why_lost(ssize_t got, int error);
  bool deliver();  // calls on_frame with each whole frame that has arrived; false after on_close
  // Gives the kernel what it takes of pending_. Returns false and sets errno if a rest is left. The
  // mutex is held.
  bool write_some();
  void write_out();
  // Returns whether the kernel lacked memory, so that retry_ writes the rest. The mutex is held.
  bool write_pending();
  bool waits() const { return held_ || writable_.enabled() || retry_.pending(); }
  void end_hold();
  void lose(int errno_value);  // the mutex is held
  void close(std::optional<Error> error);

  LinkEnd end_;
  Events events_;
  FrameReader reader_;
  // Of pending_ and closed_, of writing to the descriptor, and of reading from TLS.
  std::mutex mutex_;
  evbuffer* pending_;
  FdEvent readable_;
  FdEvent writable_;
  Timer again_;                       // reads what TLS holds, which the loop does not see
  Timer retry_;                       // of writing
  Timer broken_;                      // reports write_error_
  std::optional<Error> write_error_;  // nothing is written any more
  bool closed_ = false;
  bool held_ = false;  // of the loop's thread
};

struct LinkPair {
  LinkEnd launcher;
  LinkEnd agent;
};

// Makes the link for an agent on this host: a socket pair. All descriptors are non-blocking and
// close-on-exec. Error: there are too many descriptors.
Result<LinkPair> make_local_link();

}  // namespace hvdrun
