// Which ranks have opened PMIx, and how they left it. Also finds programs of MPI that a rank starts
// beside its own, or in its place while the other ranks start none: they would wait for ever for
// the other ranks, because they inherit the rank's variables.
//
// The PMIx server owns it, on the agent's loop thread. Nothing fails: what cannot be seen in /proc
// is taken for good.
#pragma once

#include "agent/pmix_job.hpp"
#include "agent/pmix_listener.hpp"
#include "agent/process_tree.hpp"
#include "base/event_loop.hpp"

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace hvdrun {

class PmixClients {
 public:
  struct Events {
    // Returns the rank's first process; 0 if it has ended.
    std::function<pid_t(int rank)> pid_of;
    std::function<void(const std::string& text)> on_warning;
    // Returns for how long ranks have waited in PMIx for those of other hosts.
    std::function<std::chrono::milliseconds()> wait_for_hosts;
  };

  PmixClients(const EventLoop& loop, PmixListener& listener, Events events);

  void set_job(const PmixJob& job);

  void connected(int rank);
  void finalized(int rank) { states_[rank] = State::finalized; }

  // Returns whether the rank's newest connection is of another process than an earlier one that is
  // still open. Warns of the first. Takes milliseconds.
  bool has_second_program(int rank);

  bool any() const { return !states_.empty(); }
  bool left_without_finalize(int rank) const;

 private:
  enum class State : char { connected, finalized };
  std::vector<ProcessInfo> clients_of(int rank) const;
  void warn_of_second_start(int rank);
  void on_timer();
  bool warn_of_waiting();
  bool warn_of_waiting_for(const std::string& whom);

  PmixListener& listener_;
  Events events_;
  std::vector<int> ranks_;  // of this host
  int job_size_ = 0;
  std::chrono::milliseconds limit_{0};
  std::chrono::milliseconds waited_{0};  // when the timer ends
  std::unordered_map<int, State> states_;
  bool warned_ = false;             // of a second program
  bool warned_of_restart_ = false;  // and of one after another
  TimeoutTimer timer_;
};

}  // namespace hvdrun
