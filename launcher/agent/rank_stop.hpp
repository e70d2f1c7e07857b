// Sends the ranks of one host a signal that is to end them, in the order in which they can finish
// their work.
//
// First the processes of each rank get it that handle it (signal_targets.hpp). Their wrappers and
// their workers get it when those have ended, or shortly before the end of the grace period: a
// trainer may need its workers for the checkpoint. What a process starts while it handles the
// signal is part of that work, such as the commands of a shell's trap: it gets the signal only
// shortly before the end. A rank in which nothing handles the signal gets it whole, at once. So
// does every rank with SIGINT, which a terminal sends to all, too.
//
// The agent owns it, on its loop's thread. It cannot fail: without a look at /proc, all processes
// get the signal at once.
#pragma once

#include "agent/process_tree.hpp"
#include "agent/rank_processes.hpp"
#include "agent/signal_targets.hpp"
#include "base/event_loop.hpp"

#include <chrono>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

class RankStop {
 public:
  RankStop(const EventLoop& loop, const RankProcesses& ranks);

  // Sends the signal. `grace`: SIGKILL comes after it. `was_sent`: all processes have just had this
  // signal from someone else, and get it from here only shortly before the end.
  void begin(int signal, std::chrono::milliseconds grace, bool was_sent = false);

  // Changes the time to SIGKILL.
  void extend(std::chrono::milliseconds grace);

  // Looks whether awaited processes have ended. Call it when a child has.
  void look();

  // Sends no more.
  void cancel();

 private:
  struct Tree {
    pid_t root;
    std::vector<ProcessInfo> awaited;
  };
  std::vector<pid_t> roots(const std::vector<ProcessInfo>& processes) const;
  void begin_tree(pid_t root, const std::vector<ProcessInfo>& processes);
  void send_to_all(const std::vector<ProcessInfo>& processes);
  void send_to_tree(pid_t root, const std::vector<ProcessInfo>& processes);
  std::vector<ProcessInfo> rest_of(const std::vector<ProcessInfo>& processes) const;
  void send_to_rest();

  const RankProcesses& ranks_;
  int signal_ = 0;
  std::vector<Tree> trees_;                                 // those whose rest waits
  using Known = std::set<std::pair<pid_t, std::uint64_t>>;  // processes, with their starts
  Known there_;                                             // when the stop began
  Known told_;                                              // those that have got the signal
  Timer look_again_;
  Timer last_call_;
};

}  // namespace hvdrun
