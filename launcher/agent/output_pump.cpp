#include "agent/output_pump.hpp"

#include "control/messages.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>

namespace hvdrun {
namespace {

constexpr std::size_t kChunk = 64u << 10;
// A stream that fills its pipe gets a larger one, so that writer and reader take turns less often.
// Not all do: an ordinary user may hold 64 MB in pipes (pipe(7)).
constexpr int kLargePipe = 256 << 10;

std::uint64_t milliseconds_now() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

OutputPump::OutputPump(const EventLoop& loop, Link& link, std::function<void(int)> on_closed)
    : loop_(loop), link_(link), on_closed_(std::move(on_closed)) {}

void OutputPump::add(int rank, std::uint8_t stream, Fd pipe) {
  const auto at = streams_.insert(streams_.end(), {rank, stream, std::move(pipe), {}});
  at->event = FdEvent(loop_, at->pipe.get(), FdEvent::readable, [this, at] { on_readable(at); });
  if (credit_ > 0 || discarding_) at->event.enable();
}

void OutputPump::add_credit(std::size_t bytes) {
  const bool was_used_up = credit_ <= 0;
  credit_ += static_cast<std::int64_t>(bytes);
  if (was_used_up && credit_ > 0 && !discarding_) set_enabled(true);
}

void OutputPump::discard() {
  discarding_ = true;
  set_enabled(true);
}

void OutputPump::close_all() {
  while (!streams_.empty()) close(streams_.begin());
}

void OutputPump::set_enabled(bool enabled) {
  for (auto& stream : streams_) enabled ? stream.event.enable() : stream.event.disable();
}

void OutputPump::on_readable(Position at) {
  if (credit_ <= 0 && !discarding_) return;  // used up since the loop saw the bytes
  const ssize_t got = relay(*at);
  if (got > 0) return;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  close(at);
}

ssize_t OutputPump::relay(StreamState& stream) {
  if (discarding_) {
    std::array<char, kChunk> dropped;
    return ::read(stream.pipe.get(), dropped.data(), dropped.size());
  }
  const auto header = pack_output_header(
      {static_cast<std::uint32_t>(stream.rank), stream.stream, milliseconds_now()});
  // A read that stopped where the credit does would cut a line that the rank has written whole.
  const ssize_t got =
      link_.send_read(FrameType::output, kToLauncher, header, stream.pipe.get(), kChunk);
  if (got <= 0) return got;
  credit_ -= got;
  if (credit_ <= 0) set_enabled(false);
  if (!stream.enlarged && static_cast<std::size_t>(got) == kChunk) {
    stream.enlarged = true;
    ::fcntl(stream.pipe.get(), F_SETPIPE_SZ, kLargePipe);
  }
  return got;
}

void OutputPump::close(Position at) {
  const int rank = at->rank;
  const auto header = pack_output_header({static_cast<std::uint32_t>(rank), at->stream, 0});
  link_.send(FrameType::output_closed, kToLauncher, header);
  at->event.disable();  // while its descriptor is open
  streams_.erase(at);
  on_closed_(rank);
}

}  // namespace hvdrun
