// A user's signals (USR1, USR2) on their way to the ranks of one host.
//
// They come from the launcher, over the link, or from SLURM, which sends a step's signal to every
// process of the step: to this agent and to the ranks. A rank gets each signal once.
//
// A signal of the launcher is for a rank's first process if that has a handler for it. If not, that
// may be a shell or another wrapper, which the signal would end. Then the processes below it that
// have a handler get it. If there are none, those get it that block it, and at last the first one.
//
// The agent owns it, on its loop's thread. It cannot fail; a signal for a process that has ended is
// lost.
#pragma once

#include "agent/process_tree.hpp"
#include "agent/rank_processes.hpp"
#include "base/event_loop.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

enum class SignalUse {
  none,    // the signal ends the process, or is ignored
  waits,   // its first thread blocks the signal: it may wait for it (sigwait(3)), or be a wrapper
  handles  // it has a handler
};

// Returns what a process does with the signal; none if it has ended.
SignalUse use_of(pid_t pid, int signal);

// Returns those of `processes` below `first` that use the signal in this way, but none below one of
// them.
std::vector<ProcessInfo> users_below(pid_t first, int signal, SignalUse use,
                                     const std::vector<ProcessInfo>& processes);

class UserSignals {
 public:
  // `in_step`: SLURM has started this agent in a step. `report` is called with a signal that SLURM
  // has sent to that step.
  UserSignals(const EventLoop& loop, const RankProcesses& ranks, bool in_step,
              std::function<void(int)> report);

  // Sends the launcher's signal to the ranks. If SLURM may send it too, waits a moment for that.
  void pass_on(int signal);

  // Takes a signal that another process has sent to this one.
  void came_from(pid_t sender, int signal);

 private:
  using Clock = std::chrono::steady_clock;

  void send(int signal);
  void send_to(pid_t first, int signal, std::vector<ProcessInfo>& processes) const;

  const RankProcesses& ranks_;
  const bool in_step_;
  const std::function<void(int)> report_;
  std::map<int, Clock::time_point> from_slurm_;  // the signals that the launcher may send, too
  std::vector<int> waiting_;
  Timer wait_;
};

}  // namespace hvdrun
