#include "agent/pipe_writes.hpp"

#include <algorithm>
#include <array>
#include <csignal>

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr rlim_t kMostQueued = 65536;  // signals
constexpr std::size_t kAtOnce = 128;   // signals that one read takes

// Signals of one number stay in their order. Guard and agent use the numbers below it.
int write_signal() {
  return SIGRTMIN + 4;
}

// Leaves other processes of the user at least half of the signals. Returns the limit from before.
rlimit lower_limit() {
  rlimit before{};
  ::getrlimit(RLIMIT_SIGPENDING, &before);
  rlimit lowered = before;
  lowered.rlim_cur = std::min(before.rlim_cur / 2, kMostQueued);
  ::setrlimit(RLIMIT_SIGPENDING, &lowered);
  return before;
}

Fd make_signalfd() {
  block_signals(PipeWrites::signals());
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : PipeWrites::signals()) sigaddset(&set, signal);
  return Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

// The kernel sends SIGIO when the queue is full.
std::vector<int> PipeWrites::signals() {
  return {write_signal(), SIGIO};
}

PipeWrites::PipeWrites(const EventLoop& loop)
    : limit_before_(lower_limit()),
      signals_(make_signalfd()),
      event_(loop, signals_.get(), FdEvent::readable, [this] { update(); }) {}

// Signals of an earlier pipe with this number are not for the new listener.
void PipeWrites::watch(int pipe, Listener& listener) {
  update();
  const f_owner_ex owner{F_OWNER_TID, static_cast<pid_t>(::syscall(SYS_gettid))};
  if (::fcntl(pipe, F_SETOWN_EX, &owner) != 0) return;
  if (::fcntl(pipe, F_SETSIG, write_signal()) != 0) return;
  if (::fcntl(pipe, F_SETFL, ::fcntl(pipe, F_GETFL) | O_ASYNC) != 0) return;
  listeners_[pipe] = &listener;
}

void PipeWrites::unwatch(int pipe) {
  if (listeners_.erase(pipe) > 0) ::fcntl(pipe, F_SETFL, ::fcntl(pipe, F_GETFL) & ~O_ASYNC);
}

void PipeWrites::update() {
  std::array<signalfd_siginfo, kAtOnce> signals;  // NOLINT: filled by read(2)
  for (;;) {
    const ssize_t got = ::read(signals_.get(), signals.data(), sizeof signals);
    if (got <= 0) return;
    const auto count = static_cast<std::size_t>(got) / sizeof(signalfd_siginfo);
    for (std::size_t i = 0; i < count; ++i) {
      if (signals[i].ssi_signo == SIGIO) {
        for (const auto& [pipe, listener] : listeners_) listener->on_lost();
        continue;
      }
      const auto at = listeners_.find(signals[i].ssi_fd);
      if (at != listeners_.end()) at->second->on_write(at->first);
    }
    if (count < kAtOnce) return;
  }
}

}  // namespace hvdrun
