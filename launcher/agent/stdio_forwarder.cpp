#include "agent/stdio_forwarder.hpp"

#include "base/system.hpp"
#include "protocol/messages.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <sys/ioctl.h>

namespace hvdrun {
namespace {

constexpr std::size_t kChunk = 64u << 10;
// A stream that fills its pipe gets a larger one, so that writer and reader alternate less often.
// Other streams keep theirs, because an ordinary user may have only 64 MB in pipes (pipe(7)).
constexpr int kLargePipe = 256 << 10;

std::uint64_t milliseconds_now() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

// Returns how many bytes a pipe holds.
std::size_t unread(int pipe) {
  int bytes = 0;
  return ::ioctl(pipe, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::string read_at_most(int pipe, std::size_t most) {
  std::string bytes(std::min(most, kChunk), '\0');
  const ssize_t got = ::read(pipe, bytes.data(), bytes.size());
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

}  // namespace

OutputForwarder::OutputForwarder(const EventLoop& loop, Link& link,
                                 std::function<void(int)> on_closed)
    : loop_(loop), link_(link), on_closed_(std::move(on_closed)), writes_(loop) {}

void OutputForwarder::add(int rank, std::uint8_t stream, Fd pipe) {
  insert(rank, stream, std::move(pipe));
}

void OutputForwarder::add(int rank, Fd out, Fd err, std::shared_ptr<StreamOrder> order) {
  const auto first = insert(rank, 1, std::move(out));
  if (!err) return;
  const auto second = insert(rank, 2, std::move(err));
  if (!order) return;
  first->order = second->order = std::move(order);
  first->other = &*second;
  second->other = &*first;
}

OutputForwarder::Position OutputForwarder::insert(int rank, std::uint8_t stream, Fd pipe) {
  const auto at = streams_.insert(streams_.end(), {rank, stream, std::move(pipe), {}});
  at->event = FdEvent(loop_, at->pipe.get(), FdEvent::readable, [this, at] { on_readable(at); });
  if (credit_ > 0 || discarding_) at->event.enable();
  return at;
}

void OutputForwarder::add_credit(std::size_t bytes) {
  const bool was_used_up = credit_ <= 0;
  credit_ += static_cast<std::int64_t>(bytes);
  if (was_used_up && credit_ > 0 && !discarding_) set_enabled(true);
}

void OutputForwarder::discard() {
  discarding_ = true;
  for (auto& stream : streams_) end_order(stream);
  set_enabled(true);
}

void OutputForwarder::close_all() {
  while (!streams_.empty()) close(streams_.begin());
}

void OutputForwarder::set_enabled(bool enabled) {
  for (auto& stream : streams_) enabled ? stream.event.enable() : stream.event.disable();
  writes_.set_eager(!enabled);
}

void OutputForwarder::end_order(StreamState& stream) {
  if (stream.other == nullptr) return;
  stream.other->order.reset();
  stream.other->other = nullptr;
  stream.order.reset();
  stream.other = nullptr;
}

void OutputForwarder::on_readable(Position at) {
  if (credit_ <= 0 && !discarding_) return;  // other streams have used it up meanwhile
  if (at->other != nullptr && !discarding_ && relay_both(*at)) return;
  const ssize_t got = relay(*at);
  if (got > 0) return;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  close(at);
}

ssize_t OutputForwarder::relay(StreamState& stream) {
  if (discarding_) {
    std::array<char, kChunk> dropped;
    return ::read(stream.pipe.get(), dropped.data(), dropped.size());
  }
  const auto header = pack_output_header(
      {static_cast<std::uint32_t>(stream.rank), stream.stream, milliseconds_now()});
  // Reads more than the credit if need be: otherwise a line that the rank has written whole would
  // be cut.
  const ssize_t got =
      link_.send_read(FrameType::output, kToLauncher, header, stream.pipe.get(), kChunk);
  if (got <= 0) return got;
  spend(static_cast<std::size_t>(got));
  if (!stream.enlarged && static_cast<std::size_t>(got) == kChunk) {
    stream.enlarged = true;
    ::fcntl(stream.pipe.get(), F_SETPIPE_SZ, kLargePipe);
  }
  return got;
}

bool OutputForwarder::relay_both(StreamState& stream) {
  const bool is_out = stream.stream == 1;
  // The writes of the bytes that are there now are known afterwards, and those of a few more.
  const std::size_t in_other = unread(stream.other->pipe.get());
  const std::size_t in_own = in_other > 0 ? unread(stream.pipe.get()) : 0;
  stream.order->update();
  if (in_own == 0) {
    stream.order->only(is_out ? StreamOrder::kOut : StreamOrder::kErr);
    return false;
  }
  stream.order->leave_out_ends();
  const std::string own = read_at_most(stream.pipe.get(), in_own);
  const std::string other = read_at_most(stream.other->pipe.get(), in_other);
  const auto now = milliseconds_now();
  const Link::Hold together(link_);
  for (const auto& piece : stream.order->arrange(is_out ? own : other, is_out ? other : own)) {
    const auto header = pack_output_header(
        {static_cast<std::uint32_t>(stream.rank),
         static_cast<std::uint8_t>(piece.pipe == StreamOrder::kOut ? 1 : 2), now});
    link_.send_parts(FrameType::output, kToLauncher, header, piece.bytes);
  }
  spend(own.size() + other.size());
  return true;
}

void OutputForwarder::spend(std::size_t bytes) {
  credit_ -= static_cast<std::int64_t>(bytes);
  if (credit_ <= 0) set_enabled(false);
}

void OutputForwarder::close(Position at) {
  end_order(*at);
  const int rank = at->rank;
  const auto header = pack_output_header({static_cast<std::uint32_t>(rank), at->stream, 0});
  link_.send(FrameType::output_closed, kToLauncher, header);
  streams_.erase(at);
  on_closed_(rank);
}

StdinWriter::StdinWriter(const EventLoop& loop, Fd pipe,
                         std::function<void(std::size_t)> on_written)
    : pipe_(std::move(pipe)),
      event_(loop, pipe_.get(), FdEvent::writable, [this] { write_out(); }),
      on_written_(std::move(on_written)) {}

void StdinWriter::write(std::string_view bytes) {
  if (bytes.empty()) return;
  if (!pipe_) return on_written_(bytes.size());  // dropped: the rank has closed its stdin
  waiting_ += bytes;
  if (!event_.enabled()) write_out();
}

void StdinWriter::close() {
  closing_ = true;
  if (waiting_.empty()) close_pipe();
}

// Keeps the bytes in the pipe countable. As a reader we would keep the rank's end from being seen,
// so we are none before the last byte is written.
void StdinWriter::close_pipe() {
  event_.reset();
  if (!pipe_) return;
  const auto path = "/proc/self/fd/" + std::to_string(pipe_.get());
  rest_.reset(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  pipe_.reset();
}

std::uint64_t StdinWriter::taken() const {
  const int pipe = pipe_ ? pipe_.get() : rest_.get();
  return written_ - std::min<std::uint64_t>(written_, pipe >= 0 ? unread(pipe) : 0);
}

void StdinWriter::write_out() {
  const ssize_t put = ::write(pipe_.get(), waiting_.data(), waiting_.size());
  if (put < 0 && (errno == EAGAIN || errno == EINTR || is_short_of_memory(errno)))
    return event_.enable();
  // If the rank has closed its stdin (EPIPE), the rest is dropped, as by a shell's pipe.
  const std::size_t gone = put < 0 ? waiting_.size() : static_cast<std::size_t>(put);
  if (put > 0) written_ += static_cast<std::uint64_t>(put);
  waiting_.erase(0, gone);
  if (!waiting_.empty()) {
    event_.enable();
  } else {
    event_.disable();
    if (put < 0 || closing_) close_pipe();
  }
  on_written_(gone);
}

}  // namespace hvdrun
