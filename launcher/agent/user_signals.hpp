// A user's signals (USR1, USR2) on their way to the ranks of one host.
//
// They come from the launcher, over the link, or from SLURM, which sends a step's signal to every
// process of the step: to this agent and to the ranks. A rank gets each signal once.
//
// A signal of the launcher is for a rank's first process if that takes it. If not, that may be a
// shell or another wrapper, which the signal would end. Then the processes below it that take the
// signal get it. If there are none, the first process gets it.
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

// Returns whether the process has a handler for the signal, or blocks it in its first thread, as
// one does that waits for it (sigwait(3), signalfd(2)).
bool takes_signal(pid_t pid, int signal);

// Returns those of `processes` below `first` that take the signal, but none below one of them.
std::vector<ProcessInfo> takers_below(pid_t first, int signal,
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

  const RankProcesses& ranks_;
  const bool in_step_;
  const std::function<void(int)> report_;
  std::map<int, Clock::time_point> from_slurm_;  // the signals that the launcher may send, too
  std::vector<int> waiting_;
  Timer wait_;
};

}  // namespace hvdrun
