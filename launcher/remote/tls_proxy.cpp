#include "remote/tls_proxy.hpp"

#include "common/net/tcp.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

// Records that are moved before the loop handles its other events.
constexpr int kTurns = 16;

std::string why_failed(int error) {
  return error == EBADMSG ? "what it sent was changed on its way" : std::strerror(error);
}

}  // namespace

void TlsProxy::Unwritten::take(std::size_t size) {
  begin_ += size;
  if (!empty()) return;
  begin_ = 0;
  bytes_ = {};  // an idle proxy holds no memory
}

TlsProxy::TlsProxy(const EventLoop& loop, Connection tls, Fd local, OnEnd on_end,
                   std::chrono::milliseconds linger)
    : loop_(loop),
      tls_(std::move(tls)),
      local_(std::move(local)),
      on_end_(std::move(on_end)),
      tls_readable_(loop_, tls_.get(), FdEvent::readable, [this] { move_all(); }),
      tls_writable_(loop_, tls_.get(), FdEvent::writable, [this] { move_all(); }),
      local_readable_(loop_, local_.get(), FdEvent::readable, [this] { move_all(); }),
      local_writable_(loop_, local_.get(), FdEvent::writable, [this] { move_all(); }),
      linger_time_(linger),
      linger_(loop_, [this] { end_or_linger(); }),
      again_(loop_, [this] { move_all(); }) {
  // The handshake may have read more than itself: its bytes wait inside the stream.
  tls_readable_.enable();
  tls_writable_.enable();
  local_readable_.enable();
}

void TlsProxy::say_last(FrameType type, std::string_view payload) {
  char header[kFrameHeaderSize];
  encode_frame_header(header, type, kToLauncher, payload.size());
  last_.assign(header, sizeof header);
  last_ += payload;
}

void TlsProxy::move_all() {
  if (ended_) return;
  bool more = true;
  for (int turn = 0; more && turn < kTurns; ++turn) {
    const bool more_from_tls = flush_to_local() && from_tls();
    const bool more_from_local = flush_to_tls() && from_local();
    more = more_from_tls || more_from_local;
  }
  if (finished()) return end();
  update_events();
  if (more) again_.start(std::chrono::milliseconds(0));
}

bool TlsProxy::from_tls() {
  if (tls_closed_) return false;
  std::array<char, Tls::kMostRecord> record;  // NOLINT: filled by receive
  const ssize_t got = tls_.receive(record.data(), record.size());
  if (got < 0 && would_block(errno)) return false;
  if (got > 0) {
    to_local_.put(record.data(), static_cast<std::size_t>(got));
  } else if ((got == 0 && tls_.has_ended_properly()) || (local_closed_ && to_tls_.empty())) {
    // If the local side has sent everything and closed, the other side may be gone before we read
    // its end. Nothing is lost then.
    tls_closed_ = true;
  } else {
    lose(got == 0 ? "the connection was cut" : why_failed(errno));
  }
  return true;
}

bool TlsProxy::from_local() {
  if (local_closed_ || tls_closed_) return false;
  std::array<char, Tls::kMostRecord> record;  // NOLINT: filled by read
  const ssize_t got = ::read(local_.get(), record.data(), record.size());
  if (got > 0) {
    to_tls_.put(record.data(), static_cast<std::size_t>(got));
    from_local_.passed({record.data(), static_cast<std::size_t>(got)});
    return true;
  }
  if (got < 0 && would_block(errno)) return false;
  local_closed_ = true;
  if (from_local_.between_frames()) to_tls_.put(last_.data(), last_.size());
  local_has_ended();
  return true;
}

void TlsProxy::local_has_ended() {
  if (ended_) return;
  unsent_ = SIZE_MAX;
  linger_.start(linger_time_);
}

bool TlsProxy::flush_to_local() {
  if (local_unread_) to_local_.take(to_local_.size());
  while (!to_local_.empty()) {
    const ssize_t sent = ::send(local_.get(), to_local_.data(), to_local_.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      to_local_.take(static_cast<std::size_t>(sent));
    } else if (would_block(errno)) {
      return false;
    } else {
      local_unread_ = true;
      to_local_.take(to_local_.size());
    }
  }
  if (tls_closed_ && !sent_end_to_local_) {
    sent_end_to_local_ = true;
    ::shutdown(local_.get(), SHUT_WR);
  }
  return true;
}

bool TlsProxy::flush_to_tls() {
  if (tls_closed_) to_tls_.take(to_tls_.size());
  while (!to_tls_.empty()) {
    const ssize_t sent = tls_.send(to_tls_.data(), to_tls_.size());
    if (sent >= 0) {
      to_tls_.take(static_cast<std::size_t>(sent));
    } else {
      if (!would_block(errno)) lose(why_failed(errno));
      return false;
    }
  }
  if (local_closed_ && !sent_end_to_tls_ && !tls_closed_) {
    sent_end_to_tls_ = true;
    tls_.end_sending();
  }
  return true;
}

// Ends the TLS side. What it has sent before still goes to the local side.
void TlsProxy::lose(const std::string& why) {
  lost_ = why;
  tls_closed_ = true;
  to_tls_.take(to_tls_.size());
}

void TlsProxy::update_events() {
  const auto wait_for = [](FdEvent& event, bool wanted) {
    if (wanted == event.enabled()) return;
    wanted ? event.enable() : event.disable();
  };
  wait_for(tls_readable_, !tls_closed_ && to_local_.empty());
  wait_for(tls_writable_, !tls_closed_ && !to_tls_.empty());
  wait_for(local_readable_, !tls_closed_ && !local_closed_ && to_tls_.empty());
  wait_for(local_writable_, !to_local_.empty());
}

// Waits on after the local side has closed, if data is left and the other side takes some or its
// host answers. Otherwise ends.
void TlsProxy::end_or_linger() {
  int queued = 0;
  int unread = 0;
  ::ioctl(tls_.get(), SIOCOUTQ, &queued);
  ::ioctl(local_.get(), FIONREAD, &unread);
  const std::size_t unsent =
      to_tls_.size() + static_cast<std::size_t>(queued) + static_cast<std::size_t>(unread);
  const bool moves = unsent < unsent_ || has_acknowledged(tls_.get(), linger_time_) ||
                     has_answered_last_send(tls_.get());
  if (unsent == 0 || !moves) return end();
  unsent_ = unsent;
  linger_.start(linger_time_);
}

// After TLS has closed nothing can be written there, so the local side's data does not matter.
bool TlsProxy::finished() const {
  return tls_closed_ && to_local_.empty();
}

void TlsProxy::end() {
  if (ended_) return;
  ended_ = true;
  for (FdEvent* event : {&tls_readable_, &tls_writable_, &local_readable_, &local_writable_})
    event->reset();
  linger_.cancel();
  again_.cancel();
  if (!tls_closed_) lost_ = lost_.value_or("the other side does not close the connection");
  if (!sent_end_to_tls_ && !lost_) tls_.end_sending();
  // Ends the connection now, even if another process has a descriptor of the socket.
  ::shutdown(tls_.get(), SHUT_RDWR);
  tls_ = {};
  local_.reset();
  const auto on_end = std::move(on_end_);
  on_end(lost_);  // may destroy this
}

}  // namespace hvdrun
