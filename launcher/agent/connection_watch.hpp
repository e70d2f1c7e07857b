// Finds out whether the ranks of a host communicate over a network. Ranks that never do have
// probably not found each other: each trains alone, and the launcher warns of that.
//
// The agent owns the watch, on its loop's thread. It looks at /proc until it has seen a connection
// or the ranks have joined in another way, and less and less often, because a look takes time. It
// cannot fail: what cannot be read is not seen, except where has_tcp_socket() says otherwise.
//
// The kernel lists a connection for a minute after its end, so none at the ranks' ports is missed.
// One at another port is missed if it begins and ends between two looks.
//
// Source: proc(5), /proc/PID/fd, /proc/PID/net and /proc/PID/maps.
#pragma once

#include "agent/held_ports.hpp"
#include "base/event_loop.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

class ConnectionWatch {
 public:
  // `joined` returns whether the ranks have joined in another way.
  ConnectionWatch(const EventLoop& loop, std::function<bool()> joined);

  // Begins to look. Call it before the ranks start: connections that the kernel lists before are
  // not theirs. Looks at the ports that this agent holds, and at MASTER_PORT, which another host
  // holds or the user has chosen. Does nothing for a job of one rank.
  void start(const LaunchMessage& job, const std::vector<HeldPort>& held);

  // Looks at the processes below this one, and at the ports.
  void look();

  // Looks if this is the first rank that has ended, because the others may still be connected to
  // it. Does not look in the first 250 ms of a job.
  void rank_ended();

  // Looks at the ports for the last time. Call it when no process is left.
  void finish();

  bool seen() const { return seen_; }

  // Returns whether a process was seen to use TensorFlow while the ranks had no TF_CONFIG.
  bool lacks_tf_config() const { return saw_tensorflow_ && !has_tf_config_; }

 private:
  void look_at_ports();

  std::function<bool()> joined_;
  Timer timer_;  // pending while it looks
  std::chrono::steady_clock::time_point begun_;
  std::set<int> ports_;
  std::set<std::string> earlier_;  // connections from before the job
  bool seen_ = false;
  bool has_tf_config_ = false;
  bool saw_tensorflow_ = false;
  bool rank_has_ended_ = false;
};

// Returns whether the process has a TCP socket that listens or is connected. Returns true also if
// that cannot be seen, because the process is another user's or has no /proc/PID/net. Returns false
// if it has ended.
bool has_tcp_socket(pid_t pid);

// Returns the TCP connections of this host that have one of these ports at either end and are open
// or were closed within the last minute: their two addresses, as /proc/net/tcp writes them.
std::set<std::string> connections_at(const std::set<int>& ports);

// Returns whether the process has loaded TensorFlow's library.
bool uses_tensorflow(pid_t pid);

}  // namespace hvdrun
