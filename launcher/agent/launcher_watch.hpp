// Signs of life between an agent and the launcher: sends the agent's, and notices when those of a
// launcher on another host stay away for long.
//
// It also fences: ranks of a job that continues when ranks are lost (--min-np) are ended sooner if
// they wait for the launcher. Their collectives have failed, so it may be this host that was cut
// off, and the others may train on without it.
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
#include <string>

namespace hvdrun {

class LauncherWatch {
 public:
  struct Silent {
    std::string text;    // "heard nothing from hvdrun for 75 s and ended its ranks"
    bool waits = false;  // a rank waits for the launcher: the ranks must be ended at once
  };
  struct Events {
    std::function<void(const Silent&)> on_silence;  // called once, after kSilentTimeouts or sooner
    std::function<bool()> one_waits;                // whether a rank waits for the launcher
  };
  LauncherWatch(const EventLoop& loop, Events events);

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

  Events events_;
  std::chrono::milliseconds host_timeout_{0};
  std::optional<Silence> silence_;
  std::optional<Silence::Clock::duration> waits_since_;  // how long the silence had lasted then
  bool paused_ = false;
  Timer beat_;
  HeartbeatSender sender_;
};

}  // namespace hvdrun
