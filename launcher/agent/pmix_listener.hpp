// Decides which connections libpmix's server gets to see. Refused are those of other users, those
// that are silent for too long, and those of a rank's second program.
//
// libpmix reads the greeting of each new connection in its only thread and without a time limit. So
// one silent connection to its port would keep all ranks from starting, and from ending. A client
// whose greeting libpmix has read is one of the rank's. When it leaves, libpmix takes that for the
// rank's end, and the ranks' later fences never end.
//
// There is no call for this in libpmix. So this program has an accept(2) of its own, which libpmix
// calls in place of libc's. A connection that is shut down there has nothing to read: libpmix
// closes it, and the client's PMIx_Init fails.
//
// The PMIx server owns the listener, on the agent's loop thread; accepted() is called on libpmix's
// second thread, which only accepts. There is one at a time. Nothing fails: what the kernel does
// not say is taken for good.
#pragma once

#include "base/event_loop.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

namespace hvdrun {

class PmixListener {
 public:
  // Returns whether this newest connection of a rank, which has earlier ones, is to be refused. It
  // is called on libpmix's second thread.
  using Refuses = std::function<bool(std::uint32_t rank)>;

  // `limit`: how long a connection may be silent. Time in which this process did not run is left
  // out.
  PmixListener(const EventLoop& loop, std::chrono::milliseconds limit, Refuses refuses);
  ~PmixListener();
  PmixListener(const PmixListener&) = delete;
  PmixListener& operator=(const PmixListener&) = delete;

  struct Connection {
    int socket;
    std::uint64_t cookie;  // a later connection with the same descriptor has another
    int looks = 0;
    std::optional<std::uint32_t> rank = {};  // that it is of, as its client says
  };

  // Takes note of a connection that this process has accepted. For any thread.
  void accepted(int socket);

  // Returns the connections that are open, the earliest first.
  std::vector<Connection> open_connections();

 private:
  bool note(int socket);
  bool is_second_of_its_rank(int socket);
  void look();

  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::vector<Connection> silent_;  // guarded by mutex_, as the next ones
  std::vector<Connection> all_;
  std::size_t closed_removed_at_ = 64;  // the size of all_ at which closed ones are removed
  const Refuses refuses_;
  TimeoutTimer timer_;
  Mailbox mailbox_;
};

}  // namespace hvdrun
