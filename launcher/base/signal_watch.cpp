#include "base/signal_watch.hpp"

#include <cstring>
#include <utility>

#include <sys/signalfd.h>

namespace hvdrun {
namespace {

sigset_t make_set(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

Fd make_fd(const std::vector<int>& signals) {
  const auto set = make_set(signals);
  return Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

std::vector<int> not_ignored(const std::vector<int>& signals) {
  std::vector<int> kept;
  for (const int signal : signals) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      kept.push_back(signal);
  }
  return kept;
}

sigset_t block_signals(const std::vector<int>& signals) {
  const auto set = make_set(signals);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &set, &before);
  return before;
}

SignalWatch::SignalWatch(const EventLoop& loop, const std::vector<int>& signals,
                         std::function<void(int)> callback)
    : fd_(make_fd(signals)),
      callback_(std::move(callback)),
      event_(loop, fd_.get(), FdEvent::readable, [this] { poll(); }) {
  event_.enable();
}

void SignalWatch::poll() {
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == sizeof info)
    callback_(static_cast<int>(info.ssi_signo));
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

}  // namespace hvdrun
