// The link between launcher and agent: frames over one byte stream, non-blocking both ways.
//
// Lives on the loop's thread, but for send_alive(). Reading never stops: the credits for output and
// input bound what the other side may have under way, so control frames are never stuck behind
// output.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"
#include "protocol/frame.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

struct evbuffer;

namespace hvdrun {

// One end of a byte stream both ways: a descriptor for each. Over ssh they are two pipes; of a
// socket they are duplicates.
struct LinkEnd {
  Fd in;
  Fd out;
  bool text_first = false;  // see FrameReader
};

// A payload that goes to many links and stands in memory once.
using SharedPayload = std::shared_ptr<const std::string>;

// Where frames for the other side go.
class FrameSender {
 public:
  virtual ~FrameSender() = default;
  virtual void send(FrameType type, std::uint32_t destination, std::string_view payload) = 0;
  virtual void send_shared(FrameType type, std::uint32_t destination,
                           const SharedPayload& payload) = 0;
  // What came from the other side in place of its first frame; see FrameReader.
  virtual std::string text() const { return {}; }
};

class Link final : public FrameSender {
 public:
  struct Events {
    std::function<void(const Frame&)> on_frame;
    // The other side has closed (no error) or the stream is lost. Called once; nothing after it.
    // What is sent later still goes out where only what comes in is damaged.
    std::function<void(std::optional<Error>)> on_close;
  };

  // Both descriptors must be non-blocking.
  Link(const EventLoop& loop, LinkEnd end, Events events);
  ~Link() override;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void send(FrameType type, std::uint32_t destination, std::string_view payload) override;
  void send_shared(FrameType type, std::uint32_t destination,
                   const SharedPayload& payload) override;

  // A sign of life, from any thread. Nothing where bytes still wait for the kernel to take them:
  // the other side hears those.
  void send_alive();

  // An output frame read straight from a descriptor: `prefix`, then at most `limit` bytes.
  // Returns what read(2) returned (0: end of file, -1: see errno); a frame is sent when it is > 0.
  ssize_t send_read(FrameType type, std::uint32_t destination, std::string_view prefix, int fd,
                    std::size_t limit);

  // Waits until everything sent is in the kernel's hands, at most `timeout`. Blocks the loop: for
  // the last frame before leaving.
  void flush(std::chrono::milliseconds timeout);

  bool closed() const { return closed_; }

  std::string text() const override { return reader_.text(); }

 private:
  void on_readable();
  void deliver();  // hands out the whole frames that are there
  void write_out();
  void write_pending();  // the mutex is held
  void close(std::optional<Error> error);

  LinkEnd end_;
  Events events_;
  FrameReader reader_;
  std::mutex mutex_;  // of pending_ and closed_, and of writing to the descriptor
  evbuffer* pending_;
  FdEvent readable_;
  FdEvent writable_;
  bool closed_ = false;
};

struct LinkPair {
  LinkEnd launcher;
  LinkEnd agent;
};

// The channel for an agent on this host: a socket pair, all descriptors non-blocking and
// close-on-exec.
Result<LinkPair> make_local_link();

// Signs of life on a link: sending them, and judging the silence of the other side.

// Sends a sign of life on links at an interval, from a thread of its own: they keep coming while
// the loop's thread waits for a file system, for PMIx or for a process to start.
class HeartbeatSender {
 public:
  HeartbeatSender() = default;
  ~HeartbeatSender();  // waits for the thread
  HeartbeatSender(const HeartbeatSender&) = delete;
  HeartbeatSender& operator=(const HeartbeatSender&) = delete;

  // Starts the thread. Error: it cannot be started.
  Result<void> start(std::chrono::milliseconds interval);

  // The link must outlive this object.
  void add(Link& link);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Link*> links_;
  std::chrono::milliseconds interval_{0};
  bool ended_ = false;
  std::thread thread_;
};

// How long the other side of a link has been silent while this side listened. A value, told the
// time by its owner.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;

  // Both sides send a sign of life `interval` after the last.
  static std::chrono::milliseconds interval(std::chrono::milliseconds timeout) {
    return std::max(timeout / 5, std::chrono::milliseconds(1));
  }

  Silence(std::chrono::milliseconds timeout, Clock::time_point now)
      : interval_(interval(timeout)), looked_(now) {}

  void heard() { silent_ = Clock::duration::zero(); }

  // To be called every interval. A longer gap counts as two intervals: this side was stopped or
  // busy, and has not read yet what the other side has said meanwhile.
  Clock::duration grow(Clock::time_point now) {
    silent_ += std::min<Clock::duration>(now - looked_, 2 * interval_);
    looked_ = now;
    return silent_;
  }

 private:
  std::chrono::milliseconds interval_;
  Clock::time_point looked_;
  Clock::duration silent_{0};
};

}  // namespace hvdrun
