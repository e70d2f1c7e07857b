#include "transport/bridge_link.hpp"

#include "common/clock.hpp"
#include "common/fd.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

namespace libhvd {
namespace {

// Removes `bytes` from the front of the part, or all of it. Returns how many it had of them.
std::size_t skip(iovec& part, std::size_t bytes) {
  const std::size_t taken = std::min(bytes, part.iov_len);
  part = {static_cast<std::byte*>(part.iov_base) + taken, part.iov_len - taken};
  return taken;
}

// Returns the part of a step's area that follows the head.
iovec body_of(const Segment& segment, int block, std::uint32_t step, const Used& used) {
  std::byte* const input = used.wide != 0 ? segment.wide(block / segment.size(), step).data()
                                          : segment.area(block, step).input;
  return {input, used.input};
}

bool fits(const Used& used, const SegmentLayout& layout) {
  return used.input <= (used.wide != 0 ? layout.wide_bytes() : layout.shape().chunk);
}

FrameHead make_head(FrameKind kind, int rank, std::uint32_t step) {
  FrameHead head{};
  head.kind = kind;
  head.rank = static_cast<std::uint32_t>(rank);
  head.step = step;
  return head;
}

}  // namespace

BridgeLink::BridgeLink(std::shared_ptr<Segment> segment, int host, Connection socket)
    : segment_(std::move(segment)),
      host_(host),
      socket_(std::move(socket)),
      heard_ns_(monotonic_ns()),
      in_{&in_head_, sizeof in_head_} {
  const int own_host = static_cast<int>(segment_->header().host);
  for (int lane = 0; lane < segment_->lanes(); ++lane) {
    for (const int rank : segment_->ranks_on(own_host))
      locals_.push_back({lane * segment_->size() + rank});
  }
}

// Returns the frame to send next. Failures and leavers are read before the steps, because their
// frames must not overtake these.
std::optional<FrameHead> BridgeLink::pick() const {
  if (broken_ || said_goodbye_) return std::nullopt;
  const std::uint64_t failure = segment_->header().failure.load(std::memory_order_seq_cst);
  std::optional<int> leaver;
  for (const Local& local : locals_) {  // `left` is set in the first lane only
    const bool left = segment_->block(local.block).left.load(std::memory_order_seq_cst) != 0;
    if (left && !local.sent_left && !leaver) leaver = local.block;
  }
  for (const Local& local : locals_) {
    RankBlock& block = segment_->block(local.block);
    if (block.arrived.load(std::memory_order_seq_cst) == local.sent) continue;
    FrameHead head = make_head(FrameKind::step, local.block, local.sent + 1);
    head.used = block.areas[head.step % 2].used;
    head.header = block.areas[head.step % 2].header;
    return head;
  }
  if (leaver) return make_head(FrameKind::left, *leaver, 0);
  const auto found = unpack_failure(failure, segment_->size());
  if (found && !sent_failure_) {
    return make_head(FrameKind::failure, found->rank, static_cast<std::uint32_t>(found->kind));
  }
  if (leaving_) return make_head(FrameKind::goodbye, 0, 0);
  if (beat_due_) return make_head(FrameKind::beat, 0, 0);
  return std::nullopt;
}

BridgeLink::Local& BridgeLink::local(std::uint32_t block) {
  return *std::find_if(locals_.begin(), locals_.end(),
                       [&](const Local& entry) { return entry.block == static_cast<int>(block); });
}

// Records that the frame is on its way.
void BridgeLink::note(const FrameHead& head) {
  beat_due_ = false;  // any frame shows that this bridge lives
  switch (head.kind) {
    case FrameKind::beat:
      return;
    case FrameKind::step:
      local(head.rank).sent = head.step;
      return;
    case FrameKind::left:
      local(head.rank).sent_left = true;
      return;
    case FrameKind::failure:
      sent_failure_ = true;
      return;
    case FrameKind::goodbye:
      said_goodbye_ = true;
      return;
  }
}

void BridgeLink::begin(const FrameHead& head) {
  out_head_ = head;
  out_ = {iovec{&out_head_, sizeof out_head_}};
  if (head.kind == FrameKind::step)
    out_[1] = body_of(*segment_, static_cast<int>(head.rank), head.step, head.used);
  pending_ = out_[0].iov_len + out_[1].iov_len;
  note(head);
}

void BridgeLink::send() {
  blocked_ = false;
  while (!broken_) {
    if (pending_ == 0) {
      const auto head = pick();
      if (!head) return;
      begin(*head);
    }
    const ssize_t sent = socket_.send(out_);
    if (sent >= 0) {
      const auto bytes = static_cast<std::size_t>(sent);
      skip(out_[1], bytes - skip(out_[0], bytes));
      pending_ -= bytes;
    } else if (would_block(errno)) {
      blocked_ = true;
      return;
    } else {
      broken_ = true;  // receive() returns why, after what it still finds
      pending_ = 0;
    }
  }
}

std::optional<LinkEnd> BridgeLink::receive() {
  bool drained = false;  // the last read has taken all that there was
  while (true) {
    if (in_.iov_len == 0) {
      if (in_body_) {
        finish_frame();
      } else if (const auto end = accept_head()) {
        return end;
      }
      continue;
    }
    if (take_ahead()) continue;
    if (drained) return std::nullopt;
    const ssize_t count = read(drained);
    if (count > 0) continue;
    if (count == 0 || errno == ECONNRESET || errno == EPIPE) return LinkEnd::closed;
    if (would_block(errno)) return std::nullopt;
    return errno == EBADMSG ? LinkEnd::garbled : LinkEnd::silent;
  }
}

// Takes what is awaited from what was read ahead. Returns whether there was something.
bool BridgeLink::take_ahead() {
  const std::size_t bytes = std::min(in_.iov_len, ahead_end_ - ahead_begin_);
  if (bytes == 0) return false;
  std::memcpy(in_.iov_base, ahead_.data() + ahead_begin_, bytes);
  ahead_begin_ += skip(in_, bytes);
  return true;
}

// Reads what is awaited and some bytes beyond it: with a head the body of a small frame, after a
// body the next head. Sets `drained` if the connection had less than there was room for. Returns
// what Connection::receive returns.
ssize_t BridgeLink::read(bool& drained) {
  const std::size_t beyond = in_body_ ? sizeof(FrameHead) : ahead_.size();
  std::array<iovec, 2> parts{in_, iovec{ahead_.data(), beyond}};
  const ssize_t count = socket_.receive(parts);
  if (count <= 0) return count;
  heard_ns_ = monotonic_ns();
  const auto bytes = static_cast<std::size_t>(count);
  drained = bytes < in_.iov_len + beyond;
  ahead_begin_ = 0;
  ahead_end_ = bytes - skip(in_, bytes);
  return count;
}

bool BridgeLink::is_theirs(std::uint32_t rank) const {
  return rank < static_cast<std::uint32_t>(segment_->size()) &&
         segment_->block(static_cast<int>(rank)).host == static_cast<std::uint32_t>(host_);
}

// Handles a head, and sets where its body goes.
std::optional<LinkEnd> BridgeLink::accept_head() {
  const FrameHead& head = in_head_;
  switch (head.kind) {
    case FrameKind::beat:
      finish_frame();
      return std::nullopt;
    case FrameKind::step:
      return accept_step() ? std::nullopt : std::optional(LinkEnd::garbled);
    case FrameKind::left:
      if (!is_theirs(head.rank)) return LinkEnd::garbled;
      segment_->set_left(static_cast<int>(head.rank));
      finish_frame();
      return std::nullopt;
    case FrameKind::failure: {
      const std::uint64_t word = (static_cast<std::uint64_t>(head.step) << 32) | head.rank;
      const auto found = unpack_failure(word, segment_->size());
      if (!found) return LinkEnd::garbled;
      segment_->set_failure(found->kind, found->rank);
      finish_frame();
      return std::nullopt;
    }
    case FrameKind::goodbye:
      return LinkEnd::goodbye;
  }
  return LinkEnd::garbled;
}

bool BridgeLink::accept_step() {
  const FrameHead& head = in_head_;
  const auto blocks = static_cast<std::uint32_t>(segment_->blocks());
  const auto size = static_cast<std::uint32_t>(segment_->size());
  if (head.rank >= blocks || !is_theirs(head.rank % size) || !fits(head.used, segment_->layout()))
    return false;
  RankBlock& block = segment_->block(static_cast<int>(head.rank));
  if (head.step != block.arrived.load(std::memory_order_relaxed) + 1) return false;
  block.areas[head.step % 2].header = head.header;
  in_ = body_of(*segment_, static_cast<int>(head.rank), head.step, head.used);
  in_body_ = true;
  return true;
}

// Publishes a step whose body is complete. A head is expected next.
void BridgeLink::finish_frame() {
  if (in_body_) segment_->publish(static_cast<int>(in_head_.rank), in_head_.step);
  in_body_ = false;
  in_ = {&in_head_, sizeof in_head_};
}

}  // namespace libhvd
