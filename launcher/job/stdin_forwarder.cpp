#include "job/stdin_forwarder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::size_t kWindow = 64u << 10;

// Regular files and /dev/null are not (EPERM): they are always ready.
bool is_pollable(int fd) {
  const Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

StdinForwarder::Source StdinForwarder::find_source() {
  struct stat status {};
  if (::fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode)) return Source::file;
  return ::isatty(STDIN_FILENO) != 0 ? Source::terminal : Source::stream;
}

StdinForwarder::StdinForwarder(const EventLoop& loop, bool keeps)
    : source_(find_source()),
      keeps_(keeps),
      begin_(source_ == Source::file ? ::lseek(STDIN_FILENO, 0, SEEK_CUR) : 0),
      always_ready_(!is_pollable(STDIN_FILENO)),
      event_(loop, STDIN_FILENO, FdEvent::readable, [this] { on_readable(); }),
      next_read_(loop, [this] { on_readable(); }) {}

void StdinForwarder::start(const std::vector<int>& receivers, Events events) {
  events_ = std::move(events);
  for (const int rank : receivers) under_way_[rank] = 0;
  if (source_ != Source::terminal) position_ = lost_beginning_ ? read_ : 0;
  closed_ = false;
  resume();
}

void StdinForwarder::stop() {
  under_way_.clear();
  pause();
}

void StdinForwarder::pause() {
  event_.disable();
  next_read_.cancel();
}

void StdinForwarder::add_credit(int rank, std::size_t bytes) {
  const auto at = under_way_.find(rank);
  if (at == under_way_.end()) return;
  at->second -= std::min(at->second, bytes);
  resume();
}

void StdinForwarder::remove(int rank, std::uint64_t taken) {
  taken_ = std::max(taken_, taken);
  under_way_.erase(rank);
  under_way_.empty() ? pause() : resume();
}

void StdinForwarder::on_foreground() {
  resume();
}

bool StdinForwarder::may_read() const {
  // A terminal that has gone is none any more, and has an end.
  return ::isatty(STDIN_FILENO) == 0 || ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

std::size_t StdinForwarder::room() const {
  std::size_t most = 0;
  for (const auto& [rank, bytes] : under_way_) most = std::max(most, bytes);
  return kWindow - std::min(kWindow, most);
}

void StdinForwarder::resume() {
  // What is kept, and the end, come without a wait.
  const bool is_known = position_ < kept_.size() || at_end_;
  if (closed_ || under_way_.empty() || room() == 0 || !may_read()) return;
  always_ready_ || is_known ? next_read_.start(std::chrono::milliseconds(0)) : event_.enable();
}

void StdinForwarder::on_readable() {
  if (!may_read()) return event_.disable();
  std::array<char, kWindow> bytes;
  const ssize_t got = read_next(bytes.data(), room());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return resume();
  if (got <= 0) {
    at_end_ = source_ != Source::file;
    closed_ = true;
    pause();
    return close_all();
  }
  for (auto& [rank, under_way] : under_way_) {
    under_way += static_cast<std::size_t>(got);
    events_.send(rank, {bytes.data(), static_cast<std::size_t>(got)});
  }
  if (room() == 0)
    event_.disable();
  else
    resume();
}

// Reads as read(2) does: first what is kept of a stream.
ssize_t StdinForwarder::read_next(char* bytes, std::size_t most) {
  ssize_t got = 0;
  if (source_ == Source::file) {
    got = ::pread(STDIN_FILENO, bytes, most, begin_ + static_cast<off_t>(position_));
  } else if (position_ < kept_.size()) {
    got = static_cast<ssize_t>(kept_.copy(bytes, most, position_));
  } else if (!at_end_) {
    got = ::read(STDIN_FILENO, bytes, most);
    if (got > 0) keep({bytes, static_cast<std::size_t>(got)});
  }
  if (got > 0) position_ += static_cast<std::uint64_t>(got);
  return got;
}

// Takes note of bytes that were read from a stream, and keeps them for further attempts.
void StdinForwarder::keep(std::string_view bytes) {
  read_ += bytes.size();
  if (!keeps_ || source_ != Source::stream || lost_beginning_) return;
  lost_beginning_ = kept_.size() + bytes.size() > kMostKept;
  lost_beginning_ ? std::string().swap(kept_) : static_cast<void>(kept_.append(bytes));
}

std::uint64_t StdinForwarder::finish() {
  if (source_ == Source::file) ::lseek(STDIN_FILENO, begin_ + static_cast<off_t>(taken_), SEEK_SET);
  return source_ == Source::stream ? read_ - std::min(read_, taken_) : 0;
}

// The callback may call stop().
void StdinForwarder::close_all() {
  const auto receivers = under_way_;
  for (const auto& [rank, bytes] : receivers) events_.close(rank);
}

}  // namespace hvdrun
