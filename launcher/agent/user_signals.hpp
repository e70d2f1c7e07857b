// A user's signals (USR1, USR2 and others: passed_signals.hpp) on their way to the ranks of one
// host.
//
// They come from the launcher, over the link, or from a scheduler, which sends a step's signal to
// every process of the step: to this agent and to the ranks. A rank gets each signal once.
//
// A signal of the launcher is for the processes of a rank that signal_targets.hpp finds. If there
// are none, the rank's first process gets it.
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

// Returns the signals that the agent reads on its loop: a scheduler may send any signal to the
// processes of a step, and the agent is one. Those of pipe_writes.hpp are left out.
std::vector<int> watched_signals();

// Makes these the signals that the calling thread blocks.
void block_only(const std::vector<int>& signals);

class UserSignals {
 public:
  // `in_step`: a scheduler has started this agent in a step. `report` is called with a signal that
  // it has sent to that step.
  UserSignals(const EventLoop& loop, const RankProcesses& ranks, bool in_step,
              std::function<void(int)> report);

  // Sends the launcher's signal to the ranks. If the scheduler may send it too, waits a moment for
  // that.
  void pass_on(int signal);

  // Takes a signal that `sender` has sent to this process, and so to the ranks, if that is a
  // scheduler's. Returns whether it is.
  bool take(int signal, pid_t sender);

  // Returns whether the scheduler has just sent the ranks this signal.
  bool ranks_have_had(int signal) const;

 private:
  using Clock = std::chrono::steady_clock;

  void send(int signal);
  void send_to(pid_t first, int signal, std::vector<ProcessInfo>& processes) const;

  const RankProcesses& ranks_;
  const bool in_step_;
  const std::function<void(int)> report_;
  std::map<int, Clock::time_point> from_scheduler_;  // the signals that the launcher may send, too
  std::vector<int> waiting_;
  Timer wait_;
};

}  // namespace hvdrun
