#include "common/net/acceptor.hpp"

#include "common/net/tcp.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>

namespace common {
namespace {

constexpr int kAcceptedAtOnce = 32;  // before the owner handles its other events
constexpr std::chrono::milliseconds kPause{100};

// The two have the same values.
static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT);

bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Result<std::unique_ptr<Acceptor>, int> Acceptor::open(std::vector<Fd> listeners, Limits limits,
                                                      Begin begin) {
  Fd events(::epoll_create1(EPOLL_CLOEXEC));
  if (!events) return errno;
  std::unique_ptr<Acceptor> acceptor(
      new Acceptor(std::move(listeners), limits, std::move(begin), std::move(events)));
  acceptor->watch_listeners(POLLIN, EPOLL_CTL_ADD);
  return acceptor;
}

Acceptor::Acceptor(std::vector<Fd> listeners, Limits limits, Begin begin, Fd events)
    : events_(std::move(events)),
      listeners_(std::move(listeners)),
      limits_(limits),
      begin_(std::move(begin)),
      next_id_(listeners_.size()) {}

Acceptor::~Acceptor() = default;

bool Acceptor::watch(int fd, short event, std::uint64_t id, int operation) const {
  epoll_event wanted{};
  wanted.events = static_cast<std::uint32_t>(event);
  wanted.data.u64 = id;
  return ::epoll_ctl(events_.get(), operation, fd, &wanted) == 0;
}

// A listener's id is its index.
void Acceptor::watch_listeners(short event, int operation) const {
  for (std::size_t i = 0; i < listeners_.size(); ++i)
    watch(listeners_[i].get(), event, i, operation);
}

std::unique_ptr<Candidate> Acceptor::next() {
  drop_late();
  if (paused_until_ && *paused_until_ <= Clock::now()) {
    paused_until_.reset();
    watch_listeners(POLLIN, EPOLL_CTL_MOD);
  }
  std::array<epoll_event, 64> events;  // NOLINT: filled by epoll_wait
  const int count = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
    std::unique_ptr<Candidate> admitted;
    if (id < listeners_.size()) {
      admitted = accept_some(listeners_[id].get());
    } else if (const auto found = pending_.find(id); found != pending_.end()) {
      admitted = advance(found);
    }
    // The other events are reported again.
    if (admitted) return admitted;
  }
  return nullptr;
}

std::optional<Acceptor::Clock::time_point> Acceptor::wake() const {
  if (pending_.empty()) return paused_until_;
  const auto first = pending_.begin()->second.deadline;
  return paused_until_ ? std::min(first, *paused_until_) : first;
}

std::unique_ptr<Candidate> Acceptor::accept_some(int listener) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    Fd socket = accept_tcp(listener);
    if (socket) {
      short_since_.reset();
      if (auto admitted = admit(std::move(socket))) return admitted;
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return nullptr;
    if (error == EINTR || error == ECONNABORTED) continue;
    if (is_shortage(error)) {
      if (make_room()) continue;
      if (!short_since_) short_since_ = Clock::now();
    }
    // Others are errors of one connection (accept(2)).
    pause();
    return nullptr;
  }
  return nullptr;
}

// Begins with a connection whose first bytes are here. Returns its candidate if that is admitted.
std::unique_ptr<Candidate> Acceptor::admit(Fd socket) {
  auto candidate = begin_(std::move(socket));
  if (!candidate) return nullptr;
  const auto state = candidate->advance();
  if (state == Candidate::State::admitted) return candidate;
  const short awaited = candidate->awaited();
  const std::uint64_t id = next_id_++;
  if (state == Candidate::State::waiting && pending_.size() >= limits_.pending) make_room();
  const auto position =
      pending_.emplace(id, Pending{std::move(candidate), Clock::now() + limits_.timeout, awaited})
          .first;
  if (state == Candidate::State::refused ||
      !watch(position->second.candidate->socket(), awaited, id, EPOLL_CTL_ADD))
    drop(position);
  return nullptr;
}

// Returns the candidate if it is admitted.
std::unique_ptr<Candidate> Acceptor::advance(PendingById::iterator position) {
  Pending& pending = position->second;
  switch (pending.candidate->advance()) {
    case Candidate::State::waiting: {
      const short awaited = pending.candidate->awaited();
      if (awaited != std::exchange(pending.awaited, awaited))
        watch(pending.candidate->socket(), awaited, position->first, EPOLL_CTL_MOD);
      return nullptr;
    }
    case Candidate::State::admitted: {
      auto admitted = std::move(pending.candidate);
      watch(admitted->socket(), 0, 0, EPOLL_CTL_DEL);
      pending_.erase(position);
      return admitted;
    }
    case Candidate::State::refused:
      drop(position);
      return nullptr;
  }
  return nullptr;
}

// Drops the oldest connection, of those that have not shown the key if there are any. Returns
// whether there was one.
bool Acceptor::make_room() {
  if (pending_.empty()) return false;
  const auto keyless = std::find_if(pending_.begin(), pending_.end(), [](const auto& entry) {
    return !entry.second.candidate->has_shown_key();
  });
  drop(keyless != pending_.end() ? keyless : pending_.begin());
  return true;
}

// Removes the socket from epoll before it is closed: a forked child may hold it open.
void Acceptor::drop(PendingById::iterator position) {
  const Candidate& candidate = *position->second.candidate;
  if (!candidate.has_shown_key()) ++refused_;
  watch(candidate.socket(), 0, 0, EPOLL_CTL_DEL);
  pending_.erase(position);
}

void Acceptor::drop_late() {
  const auto now = Clock::now();
  while (!pending_.empty() && pending_.begin()->second.deadline <= now) drop(pending_.begin());
}

void Acceptor::drop_pending() {
  while (!pending_.empty()) drop(pending_.begin());
}

void Acceptor::pause() {
  paused_until_ = Clock::now() + kPause;
  watch_listeners(0, EPOLL_CTL_MOD);
}

}  // namespace common
