#include "agent/launcher_watch.hpp"

#include <utility>

#include <fmt/format.h>

namespace hvdrun {

LauncherWatch::LauncherWatch(const EventLoop& loop, Events events)
    : events_(std::move(events)), beat_(loop, [this] { on_beat(); }) {}

Result<void> LauncherWatch::start(Link& link, std::chrono::milliseconds host_timeout,
                                  bool is_here) {
  if (host_timeout.count() == 0) return {};
  host_timeout_ = host_timeout;
  const auto interval = Silence::interval(host_timeout, is_here);
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
  if (!events_.one_waits())
    waits_since_.reset();
  else if (!waits_since_ || silent < *waits_since_)
    waits_since_ = silent;
  const auto end = [this](int timeouts, const char* then, bool waits) {
    const std::chrono::duration<double> time = timeouts * host_timeout_;
    events_.on_silence(
        {fmt::format("heard nothing from hvdrun for {:.3g} s{}", time.count(), then), waits});
  };
  if (waits_since_ && silent - *waits_since_ > kFenceTimeouts * host_timeout_)
    return end(kFenceTimeouts, " while its ranks waited for it, and ended them", true);
  if (silent > kSilentTimeouts * host_timeout_)
    return end(kSilentTimeouts, " and ended its ranks", false);
  beat_.start(Silence::interval(host_timeout_));
}

}  // namespace hvdrun
