// Keeps connections that say nothing from stopping libpmix's server. libpmix reads the greeting of
// each new connection in its only thread and without a time limit. So one silent connection to its
// port would keep all ranks from starting, and from ending.
//
// There is no call for this in libpmix. So this program has an accept(2) of its own, which libpmix
// calls in place of libc's. A connection of another user is shut down before libpmix reads from it.
// One that is silent for too long is shut down too, whoever has opened it. libpmix reads the end of
// a connection that is shut down, and closes it.
//
// The PMIx server owns the listener, on the agent's loop thread; accepted() is called on libpmix's.
// There is one at a time. Nothing fails: what the kernel does not say is taken for good.
#pragma once

#include "base/event_loop.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace hvdrun {

class PmixListener {
 public:
  // `limit`: how long a connection may be silent. Time in which this process did not run is left
  // out.
  PmixListener(const EventLoop& loop, std::chrono::milliseconds limit);
  ~PmixListener();
  PmixListener(const PmixListener&) = delete;
  PmixListener& operator=(const PmixListener&) = delete;

  struct Connection {
    int socket;
    std::uint64_t cookie;  // a later connection with the same descriptor has another
    int looks = 0;
  };

  // Takes note of a connection that this process has accepted. For any thread.
  void accepted(int socket);

  // Returns the connections that are open, the earliest first.
  std::vector<Connection> open_connections();

 private:
  void look();

  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::vector<Connection> silent_;  // guarded by mutex_, as the next ones
  std::vector<Connection> all_;
  std::size_t closed_removed_at_ = 64;  // the size of all_ at which closed ones are removed
  TimeoutTimer timer_;
  Mailbox mailbox_;
};

}  // namespace hvdrun
