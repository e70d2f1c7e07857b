// One connection between the bridges of two hosts: what the ranks here publish goes out, what comes
// in is written into the blocks of the ranks there.
//
// Frames: a head of fixed size, then the bytes of the area that are in use, straight from and into
// the segment. Byte order and layout are those of the machine; the ranks have compared them when
// they met. For one rank, its steps come in order and before the word that it has left; everything
// that was published before a failure was found comes before that failure.
//
// The bridge's thread only. Nothing here waits.
#pragma once

#include "base/connection.hpp"
#include "base/result.hpp"
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

// A field that a kind does not use is 0.
struct FrameHead {
  FrameKind kind;
  std::uint32_t rank;  // of a step: the block
  std::uint32_t step;  // the step's number; of a failure its kind
  Used used;           // of a step: how much of the area follows
  std::uint32_t reserved;
  StepHeader header;  // of a step
};
static_assert(sizeof(FrameHead) == 32 + sizeof(StepHeader));

enum class LinkEnd {
  goodbye,  // that bridge leaves, and has said so
  closed,   // its process has ended
  silent,   // the network says that the host cannot be reached
  garbled,  // what came was not a frame, or not one that may come now
};

class BridgeLink {
 public:
  // `host`: the index of the other one, which has proven itself.
  BridgeLink(std::shared_ptr<Segment> segment, int host, Connection socket);
  BridgeLink(const BridgeLink&) = delete;  // it points into itself

  // Sends what there is to send, as far as the connection takes it now.
  void send();
  // Whether send() would do something now.
  bool has_news() const { return pending_ == 0 ? pick().has_value() : !blocked_; }
  // The first failure is on its way, all of it, or cannot be.
  bool failure_is_told() const {
    return broken_ || said_goodbye_ || (told_failure_ && pending_ == 0);
  }
  // The connection took less than there is: send() again when it is writable.
  bool blocked() const { return blocked_; }

  // Takes what has come. Something: there is no more to come, and why.
  std::optional<LinkEnd> receive();

  // From here on: a beat comes after what is due now; a goodbye last of all.
  void send_beat() { beat_due_ = true; }
  void send_goodbye() { leaving_ = true; }

  bool open() const { return static_cast<bool>(socket_); }
  void close() { socket_.close(); }
  int socket() const { return socket_.get(); }
  int host() const { return host_; }

  // Whether the other host's kernel has answered within that time, as far as there was anything to
  // answer: the process there stands still then, but its host is there.
  bool host_answers(std::uint64_t ns) const;

  // When something last came, in monotonic_ns().
  std::uint64_t heard_ns() const { return heard_ns_; }
  void count_as_heard(std::uint64_t now) { heard_ns_ = now; }

 private:
  struct Local {
    int block;               // of the rank itself: its number
    std::uint32_t sent = 0;  // the last step that has been given to the connection
    bool told_left = false;
  };

  std::optional<FrameHead> pick() const;
  void begin(const FrameHead& head);
  void note(const FrameHead& head);
  Local& local(std::uint32_t block);

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
  std::array<iovec, 3> out_{};  // what is left of the frame
  std::size_t pending_ = 0;     // bytes in it
  bool blocked_ = false;
  bool broken_ = false;  // sending fails; what has come may still be read
  bool beat_due_ = false;
  bool leaving_ = false;
  bool said_goodbye_ = false;
  bool told_failure_ = false;

  // In.
  FrameHead in_head_{};
  bool in_body_ = false;
  std::array<iovec, 2> in_{};  // what is still to come of the head or the body
  std::size_t awaited_ = 0;    // bytes in it
};

}  // namespace libhvd
