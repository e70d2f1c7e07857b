// One connection between the bridges of two hosts. It sends what the ranks here publish, and writes
// what it receives into the blocks of the ranks there.
//
// A frame has a head of fixed size, then the bytes of the area that are in use, straight from and
// into the segment. Byte order and layout are those of the machine; the ranks have compared them in
// the wire-up. The steps of a rank are sent in order, and before the frame that it has left. All
// that was published before a failure was found is sent before that failure.
//
// The bridge's thread only. Nothing here waits. A connection that ends is a LinkEnd.
#pragma once

#include "base/error.hpp"
#include "common/net/connection.hpp"
#include "transport/segment.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <sys/uio.h>

namespace libhvd {

enum class FrameKind : std::uint32_t { beat = 1, step, left, failure, goodbye };

// Fields that a kind does not use are 0.
struct FrameHead {
  FrameKind kind;
  std::uint32_t rank;  // of a step: the block
  std::uint32_t step;  // of a step: its number; of a failure: its kind
  Used used;           // of a step: how much of the area follows
  std::uint32_t reserved;
  StepHeader header;  // of a step
};
static_assert(sizeof(FrameHead) == 24 + sizeof(StepHeader));

enum class LinkEnd {
  goodbye,  // the other bridge has sent a goodbye and leaves
  closed,   // its process has ended
  silent,   // the network reports that the host cannot be reached
  garbled,  // what arrived is no frame, or not one that may arrive now
};

class BridgeLink {
 public:
  // `host`: the index of the other host. The connection must be authenticated.
  BridgeLink(std::shared_ptr<Segment> segment, int host, Connection socket);
  BridgeLink(const BridgeLink&) = delete;  // it points into itself

  // Sends all frames that are due, as far as the connection takes them now.
  void send();
  // Returns whether send() would send something now.
  bool has_output() const { return pending_ == 0 ? pick().has_value() : !blocked_; }
  // Returns whether the first failure is on its way completely, or cannot be sent.
  bool failure_is_sent() const {
    return broken_ || said_goodbye_ || (sent_failure_ && pending_ == 0);
  }
  // Returns whether the connection took only a part: call send() again when it is writable.
  bool blocked() const { return blocked_; }

  // Receives what has arrived. Returns nullopt, or why nothing more will arrive.
  std::optional<LinkEnd> receive();

  // Queue a frame: a beat after what is due now, a goodbye after everything else.
  void send_beat() { beat_due_ = true; }
  void send_goodbye() { leaving_ = true; }

  bool open() const { return static_cast<bool>(socket_); }
  void close() { socket_.close(); }
  int socket() const { return socket_.get(); }
  int host() const { return host_; }

  // The time when something last arrived, in monotonic_ns().
  std::uint64_t heard_ns() const { return heard_ns_; }
  void set_heard(std::uint64_t now) { heard_ns_ = now; }

 private:
  struct Local {
    int block;               // its number; in the first lane that of the rank
    std::uint32_t sent = 0;  // the last step that was begun to be sent
    bool sent_left = false;
  };

  std::optional<FrameHead> pick() const;
  void begin(const FrameHead& head);
  void note(const FrameHead& head);
  Local& local(std::uint32_t block);

  bool take_ahead();
  ssize_t read(bool& drained);
  std::optional<LinkEnd> accept_head();
  bool accept_step();
  void finish_frame();
  bool is_theirs(std::uint32_t rank) const;

  std::shared_ptr<Segment> segment_;
  int host_;
  Connection socket_;
  std::uint64_t heard_ns_;

  // Out.
  std::vector<Local> locals_;
  FrameHead out_head_{};
  std::array<iovec, 2> out_{};  // the rest of the frame
  std::size_t pending_ = 0;     // bytes in it
  bool blocked_ = false;
  bool broken_ = false;  // sending fails; what has arrived may still be read
  bool beat_due_ = false;
  bool leaving_ = false;
  bool said_goodbye_ = false;
  bool sent_failure_ = false;

  // In.
  FrameHead in_head_{};
  bool in_body_ = false;
  iovec in_;  // room for the rest of the head or the body
  // What was read beyond that, so that a small frame takes one read: from ahead_begin_ to
  // ahead_end_.
  std::array<std::byte, 8192> ahead_;
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
};

}  // namespace libhvd
