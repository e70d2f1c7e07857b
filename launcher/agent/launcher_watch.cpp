#include "agent/launcher_watch.hpp"

#include <utility>

namespace hvdrun {

LauncherWatch::LauncherWatch(const EventLoop& loop, std::function<void()> on_silence)
    : on_silence_(std::move(on_silence)), beat_(loop, [this] { on_beat(); }) {}

Result<void> LauncherWatch::start(Link& link, std::chrono::milliseconds host_timeout,
                                  bool is_here) {
  if (host_timeout.count() == 0) return {};
  host_timeout_ = host_timeout;
  const auto interval = Silence::interval(host_timeout);
  auto started = sender_.start(interval);
  sender_.add(link);
  if (is_here) return started;
  silence_.emplace(host_timeout, Silence::Clock::now());
  beat_.start(interval);
  return started;
}

void LauncherWatch::on_beat() {
  const auto silent = silence_->grow(Silence::Clock::now());
  if (paused_) silence_->heard();
  if (silent > kSilentTimeouts * host_timeout_) return on_silence_();
  beat_.start(Silence::interval(host_timeout_));
}

}  // namespace hvdrun
