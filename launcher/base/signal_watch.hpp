// Signals as events of the loop, through signalfd(2).
#pragma once

#include "base/event_loop.hpp"

#include <csignal>
#include <functional>
#include <string>
#include <vector>

namespace hvdrun {

// Those of `signals` that are not ignored. Whoever started us with a signal ignored (nohup, a
// shell's
// "&") does not want it to do anything; blocked, it would be seen all the same.
std::vector<int> not_ignored(const std::vector<int>& signals);

// Blocks the signals for this thread and those it starts later; returns the mask from before.
sigset_t block_signals(const std::vector<int>& signals);

// Calls back with each signal that arrives. The signals must be blocked.
class SignalWatch {
 public:
  SignalWatch(const EventLoop& loop, const std::vector<int>& signals,
              std::function<void(int signal)> callback);

  // Calls back with what has arrived by now, without the loop.
  void poll();

 private:
  Fd fd_;
  std::function<void(int)> callback_;
  FdEvent event_;
};

// "SIGTERM"; "signal 40" for one without a name.
std::string signal_name(int signal);

}  // namespace hvdrun
