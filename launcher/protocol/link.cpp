#include "protocol/link.hpp"

#include "base/system.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <thread>
#include <utility>

#include <event2/buffer.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// How long the kernel gets to find memory for a write. A write fails at once, and the descriptor
// stays writable meanwhile.
constexpr std::chrono::milliseconds kRetry{10};

// Duplicates the socket, so that each direction has its own descriptor.
Result<LinkEnd> both_ways(Fd socket) {
  Fd twin(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!twin) return fail_errno("cannot make a socket pair for the agent", errno);
  return LinkEnd{std::move(socket), std::move(twin)};
}

}  // namespace

Link::Link(const EventLoop& loop, LinkEnd end, Events events)
    : end_(std::move(end)),
      events_(std::move(events)),
      reader_(end_.text_first),
      pending_(evbuffer_new()),
      readable_(loop, end_.in.get(), FdEvent::readable, [this] { on_readable(); }),
      writable_(loop, end_.out.get(), FdEvent::writable, [this] { write_out(); }),
      retry_(loop, [this] { write_out(); }),
      broken_(loop, [this] {
        if (readable_.enabled()) close(write_error_);  // not after a bad frame
      }) {
  readable_.enable();
}

Link::~Link() {
  evbuffer_free(pending_);
}

void Link::send(FrameType type, std::uint32_t destination, std::string_view payload) {
  const std::lock_guard lock(mutex_);
  if (closed_ || write_error_) return;
  char header[kFrameHeaderSize];
  encode_frame_header(header, type, destination, payload.size());
  evbuffer_add(pending_, header, sizeof header);
  evbuffer_add(pending_, payload.data(), payload.size());
  if (!waits()) write_pending();
}

void Link::send_shared(FrameType type, std::uint32_t destination, const SharedPayload& payload) {
  const std::lock_guard lock(mutex_);
  if (closed_ || write_error_) return;
  char header[kFrameHeaderSize];
  encode_frame_header(header, type, destination, payload->size());
  evbuffer_add(pending_, header, sizeof header);
  auto owner = std::make_unique<SharedPayload>(payload);
  // libevent calls this when the kernel has taken the bytes, or the buffer is freed.
  const auto give_up = [](const void*, std::size_t, void* context) {
    delete static_cast<SharedPayload*>(context);
  };
  if (evbuffer_add_reference(pending_, payload->data(), payload->size(), give_up, owner.get()) == 0)
    static_cast<void>(owner.release());
  if (!waits()) write_pending();
}

void Link::send_alive() {
  const std::lock_guard lock(mutex_);
  if (closed_ || write_error_ || evbuffer_get_length(pending_) > 0) return;
  char header[kFrameHeaderSize];
  encode_frame_header(header, FrameType::alive, kToLauncher, 0);
  const ssize_t sent = ::write(end_.out.get(), header, sizeof header);
  // Pipes and socket pairs take so few bytes whole or not at all. A rest is sent with the next
  // frame.
  if (sent > 0)
    evbuffer_add(pending_, header + sent, sizeof header - static_cast<std::size_t>(sent));
}

ssize_t Link::send_read(FrameType type, std::uint32_t destination, std::string_view prefix, int fd,
                        std::size_t limit) {
  evbuffer_iovec space;
  const std::size_t before = kFrameHeaderSize + prefix.size();
  const std::lock_guard lock(mutex_);
  if (evbuffer_reserve_space(pending_, static_cast<ev_ssize_t>(before + limit), &space, 1) < 1) {
    errno = ENOMEM;
    return -1;
  }
  auto* base = static_cast<char*>(space.iov_base);
  const ssize_t got = ::read(fd, base + before, limit);
  if (got <= 0) return got;
  char header[kFrameHeaderSize];
  encode_frame_header(header, type, destination, prefix.size() + static_cast<std::size_t>(got));
  std::copy(std::begin(header), std::end(header), base);
  std::copy(prefix.begin(), prefix.end(), base + kFrameHeaderSize);
  space.iov_len = before + static_cast<std::size_t>(got);
  evbuffer_commit_space(pending_, &space, 1);
  if (!waits()) write_pending();
  return got;
}

void Link::flush(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const std::lock_guard lock(mutex_);
  while (!closed_ && evbuffer_get_length(pending_) > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return;
    pollfd waiting{end_.out.get(), POLLOUT, 0};
    ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (write_pending()) std::this_thread::sleep_for(kRetry);
  }
}

void Link::on_readable() {
  const auto room = reader_.room();
  const ssize_t got = ::read(end_.in.get(), room.data, room.size);
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    if (errno == ECONNRESET) return close(std::nullopt);
    return close(fail_errno("cannot read from the link", errno));
  }
  if (got == 0) return close(std::nullopt);
  reader_.filled(static_cast<std::size_t>(got));
  deliver();
}

void Link::deliver() {
  Frame frame{};
  while (!closed_) {
    const auto status = reader_.next(frame);
    if (!status) {
      readable_.disable();
      return events_.on_close(status.error());
    }
    if (*status == FrameReader::Status::need_more) return;
    events_.on_frame(frame);
  }
}

void Link::write_out() {
  const std::lock_guard lock(mutex_);
  write_pending();
}

bool Link::write_pending() {
  while (!closed_ && evbuffer_get_length(pending_) > 0) {
    if (evbuffer_write(pending_, end_.out.get()) >= 0) continue;
    if (errno == EAGAIN || errno == EINTR) {
      writable_.enable();
      return false;
    }
    if (is_short_of_memory(errno)) {
      writable_.disable();
      retry_.start(kRetry);
      return true;
    }
    lose(errno);
  }
  writable_.disable();
  return false;
}

void Link::lose(int errno_value) {
  evbuffer_drain(pending_, evbuffer_get_length(pending_));
  // Leaves the end to on_readable(), because the socket may still hold frames of the other side.
  if (errno_value == EPIPE || errno_value == ECONNRESET || write_error_) return;
  write_error_ = fail_errno("cannot write to the link", errno_value);
  broken_.start(std::chrono::milliseconds(0));  // a sender is no place for a callback
}

void Link::close(std::optional<Error> error) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
  }
  readable_.disable();
  writable_.disable();
  retry_.cancel();
  broken_.cancel();
  events_.on_close(std::move(error));
}

void Link::hang_up() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  readable_.disable();
  writable_.disable();
  retry_.cancel();
  broken_.cancel();
  end_ = {};
}

Result<LinkPair> make_local_link() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return fail_errno("cannot make a socket pair for the agent", errno);
  // Makes room for a few frames of output, so that the two processes take turns less often. The
  // system may silently grant less.
  const int bytes = 512 << 10;
  for (const int end : ends) ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  LinkPair pair;
  HVD_TRY(pair.launcher, both_ways(Fd(ends[0])));
  HVD_TRY(pair.agent, both_ways(Fd(ends[1])));
  return pair;
}

}  // namespace hvdrun
