// Signs of life between an agent and the launcher: sends the agent's, and notices when those of a
// launcher on another host stay away for long.
//
// The agent owns it, on its loop thread; a thread of its own sends. Only start() can fail.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "protocol/heartbeat.hpp"
#include "protocol/link.hpp"

#include <chrono>
#include <functional>
#include <optional>

namespace hvdrun {

class LauncherWatch {
 public:
  // `on_silence`: called once, after kSilentTimeouts.
  LauncherWatch(const EventLoop& loop, std::function<void()> on_silence);

  // `host_timeout`: --host-timeout; 0: no signs of life. `is_here`: the launcher is on this host,
  // and may be silent. Error: there can be no thread.
  Result<void> start(Link& link, std::chrono::milliseconds host_timeout, bool is_here);

  // Takes note of a frame.
  void heard() {
    if (silence_) silence_->heard();
  }
  // A launcher that is paused (Ctrl-Z) may be silent without limit.
  void set_paused(bool paused) { paused_ = paused; }
  // The silence does not matter any more.
  void stop() { beat_.cancel(); }

 private:
  void on_beat();

  std::function<void()> on_silence_;
  std::chrono::milliseconds host_timeout_{0};
  std::optional<Silence> silence_;
  bool paused_ = false;
  Timer beat_;
  HeartbeatSender sender_;
};

}  // namespace hvdrun
