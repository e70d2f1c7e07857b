#include "job/stdin_forwarder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/epoll.h>
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

StdinForwarder::StdinForwarder(const EventLoop& loop)
    : always_ready_(!is_pollable(STDIN_FILENO)),
      event_(loop, STDIN_FILENO, FdEvent::readable, [this] { on_readable(); }),
      next_read_(loop, [this] { on_readable(); }) {}

void StdinForwarder::start(const std::vector<int>& receivers, Events events) {
  events_ = std::move(events);
  for (const int rank : receivers) under_way_[rank] = 0;
  if (at_end_) return close_all();
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

void StdinForwarder::remove(int rank) {
  under_way_.erase(rank);
  under_way_.empty() ? pause() : resume();
}

void StdinForwarder::on_foreground() {
  resume();
}

bool StdinForwarder::may_read() const {
  return ::isatty(STDIN_FILENO) == 0 || ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

std::size_t StdinForwarder::room() const {
  std::size_t most = 0;
  for (const auto& [rank, bytes] : under_way_) most = std::max(most, bytes);
  return kWindow - std::min(kWindow, most);
}

void StdinForwarder::resume() {
  if (at_end_ || under_way_.empty() || room() == 0 || !may_read()) return;
  always_ready_ ? next_read_.start(std::chrono::milliseconds(0)) : event_.enable();
}

void StdinForwarder::on_readable() {
  if (!may_read()) return event_.disable();
  std::array<char, kWindow> bytes;
  const ssize_t got = ::read(STDIN_FILENO, bytes.data(), room());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return resume();
  if (got <= 0) {
    at_end_ = true;
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

// The callback may call stop().
void StdinForwarder::close_all() {
  const auto receivers = under_way_;
  for (const auto& [rank, bytes] : receivers) events_.close(rank);
}

}  // namespace hvdrun
