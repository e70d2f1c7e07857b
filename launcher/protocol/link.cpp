#include "protocol/link.hpp"

#include "base/system.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
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
// Reads of TLS before the loop handles its other events.
constexpr int kTurns = 16;

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
      readable_(loop, end_.read_fd(), FdEvent::readable, [this] { on_readable(); }),
      writable_(loop, end_.write_fd(), FdEvent::writable, [this] { write_out(); }),
      again_(loop, [this] { on_readable(); }),
      retry_(loop, [this] { write_out(); }),
      broken_(loop, [this] {
        if (readable_.enabled()) close(write_error_);  // not after a bad frame
      }) {
  readable_.enable();
  // The handshake may have read more than itself.
  if (end_.tls) again_.start(std::chrono::milliseconds(0));
}

Link::~Link() {
  evbuffer_free(pending_);
  if (end_.tls) end_.tls->connection.end_sending();
}

void Link::send(FrameType type, std::uint32_t destination, std::string_view payload) {
  send_parts(type, destination, {}, payload);
}

void Link::send_parts(FrameType type, std::uint32_t destination, std::string_view prefix,
                      std::string_view rest) {
  const std::lock_guard lock(mutex_);
  if (closed_ || write_error_) return;
  char header[kFrameHeaderSize];
  encode_frame_header(header, type, destination, prefix.size() + rest.size());
  evbuffer_add(pending_, header, sizeof header);
  evbuffer_add(pending_, prefix.data(), prefix.size());
  evbuffer_add(pending_, rest.data(), rest.size());
  if (!waits()) write_pending();
}

void Link::end_hold() {
  const std::lock_guard lock(mutex_);
  held_ = false;
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
  if (closed_ || write_error_) return;
  if (evbuffer_get_length(pending_) == 0) {
    char header[kFrameHeaderSize];
    encode_frame_header(header, FrameType::alive, kToLauncher, 0);
    evbuffer_add(pending_, header, sizeof header);
  }
  // A rest is sent with the next frame or sign of life. The loop finds errors.
  write_some();
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
    pollfd waiting{end_.write_fd(), POLLOUT, 0};
    ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (write_pending()) std::this_thread::sleep_for(kRetry);
  }
}

void Link::on_readable() {
  for (int turn = 0; turn < kTurns; ++turn)
    if (!read_some()) return;
  again_.start(std::chrono::milliseconds(0));
}

bool Link::read_some() {
  const auto room = reader_.room();
  const ssize_t got = receive(room.data, room.size);
  if (got <= 0) return take_end(got);
  reader_.filled(static_cast<std::size_t>(got));
  // Without TLS the loop sees whether there is more.
  const bool may_be_more = end_.tls && static_cast<std::size_t>(got) == room.size;
  return deliver() && may_be_more && readable_.enabled();
}

ssize_t Link::receive(char* to, std::size_t size) {
  if (!end_.tls) return ::read(end_.in.get(), to, size);
  const std::lock_guard lock(mutex_);
  return end_.tls->connection.receive(to, size);
}

// Handles the result of a read that brought no bytes. Returns false.
bool Link::take_end(ssize_t got) {
  const int error = errno;
  if (got < 0 && would_block(error)) return false;
  if (end_.tls) {
    end_.tls->lost = why_lost(got, error);
    if (!end_.tls->lost.empty()) ::shutdown(end_.read_fd(), SHUT_RDWR);
    close(std::nullopt);
  } else if (got == 0 || error == ECONNRESET) {
    close(std::nullopt);
  } else {
    close(fail_errno("cannot read from the link", error));
  }
  return false;
}

// Returns why a connection over TLS was lost; "" if the other side has closed it.
std::string Link::why_lost(ssize_t got, int error) {
  if (got < 0)
    return error == EBADMSG ? "what it sent was changed on its way" : std::strerror(error);
  const std::lock_guard lock(mutex_);
  return end_.tls->connection.has_ended_properly() ? "" : "the connection was cut";
}

bool Link::deliver() {
  Frame frame{};
  while (!closed_) {
    const auto status = reader_.next(frame);
    if (!status) {
      readable_.disable();
      again_.cancel();
      events_.on_close(status.error());
      return false;
    }
    if (*status == FrameReader::Status::need_more) return true;
    events_.on_frame(frame);
  }
  return false;
}

bool Link::write_some() {
  while (const std::size_t length = evbuffer_get_length(pending_)) {
    if (!end_.tls) {
      if (evbuffer_write(pending_, end_.out.get()) < 0) return false;
      continue;
    }
    // A whole record. After EAGAIN the same bytes are passed again, as Tls::send() needs.
    std::array<char, Tls::kMostRecord> record;  // NOLINT: filled by evbuffer_copyout
    const std::size_t size = std::min(length, record.size());
    evbuffer_copyout(pending_, record.data(), size);
    const ssize_t sent = end_.tls->connection.send(record.data(), size);
    if (sent < 0) return false;
    evbuffer_drain(pending_, static_cast<std::size_t>(sent));
  }
  return true;
}

void Link::write_out() {
  const std::lock_guard lock(mutex_);
  write_pending();
}

bool Link::write_pending() {
  while (!closed_ && !write_some()) {
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
  again_.cancel();
  retry_.cancel();
  broken_.cancel();
  events_.on_close(std::move(error));
}

void Link::hang_up() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  readable_.disable();
  writable_.disable();
  again_.cancel();
  retry_.cancel();
  broken_.cancel();
  if (end_.tls) end_.tls->connection.end_sending();
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
