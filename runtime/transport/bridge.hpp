// The bridge of a host, in the process of one of its ranks. It sends what the ranks of this host
// publish to all other hosts, and writes what arrives from there into the blocks of the ranks
// there. So every host's segment is a replica of all others', and the collectives need not know of
// hosts; each element is reduced in the same order everywhere.
//
// Who does it: one thread of that process at a time, the one that has the turns. A thread that
// waits in a step takes them, so a small message wakes no other thread: the rank sends, polls the
// connections, and sleeps on them if nothing comes for long. When no thread waits, the bridge's own
// thread has the turns, and sleeps in poll(2). It leaves the connections alone until 2 ms after a
// rank's last turn (kLeaseNs), because they would wake it for each message of the rank's next step.
//
// Why nothing is overwritten while it is needed: a rank that has returned from step t+1 has seen,
// in its own host's segment, that every rank has published t+1. A rank on another host publishes
// t+1 only after it has seen the step t of every rank there, so by then all bridges have sent all
// that was written for t, and its area may be written again. On the receiving side, the area of a
// step is overwritten by that of t+2, which its rank publishes only after it has seen t+1 of all
// its readers; and a rank that has published t+1 has finished reading t. This is the rule of
// step_barrier.hpp.
//
// The bridge also sends what ends the job for a host: that a rank has left, and the first failure
// that any rank or bridge found. The bridge's rank returns the failure to its caller only after the
// bridge has sent it (Segment::wait_until_failure_is_sent), because the caller may exit. A bridge
// finds these failures by itself:
//  - a rank of its own host is dead, while another rank waits (within 20 ms);
//  - a connection ends without a goodbye: the process with the bridge there has died. It may have
//    ended because of another failure, whose frame is on its way. So this is reported only after 20
//    ms, unless another failure is known by then;
//  - nothing has arrived from a host for `silence`, and its kernel has not acknowledged what was
//    sent there: every bridge sends a beat a second. A rank that does not run (stopped, swapped
//    out, waiting for a file system) is waited for, as on one host. A bridge that was itself
//    stopped (job control, a debugger) starts to measure anew.
//
// Any thread of the process, where it says so. The own thread takes no signals. A forked child has
// no bridge, and must close what it has inherited of it: otherwise a dead rank's connections would
// stay open.
#pragma once

#include "base/error.hpp"
#include "transport/bridge_link.hpp"
#include "transport/segment.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <poll.h>

namespace libhvd {

// An authenticated connection to the bridge of another host.
struct HostSocket {
  int host;  // its index
  Connection socket;
};

class Bridge {
 public:
  // Starts the thread. The segment must span hosts (Segment::set_places) and name a rank of this
  // process as its bridge. `silence` 0: wait for silent hosts for ever. Error: no thread can be
  // started.
  static Result<std::unique_ptr<Bridge>> start(std::shared_ptr<Segment> segment,
                                               std::vector<HostSocket> sockets,
                                               std::chrono::milliseconds silence);

  // Leaves: sends what is published and a goodbye, and waits one second at most until the others
  // have it. The rank must have left the segment before.
  ~Bridge();

  // Takes the turns for the calling thread, which is about to wait for other ranks. Returns false
  // if another thread has them; that one then sends and receives for all. Any thread.
  bool take_turns();
  // Sends and receives what is ready, and looks for failures. Does not wait. The thread with the
  // turns only, as the next two functions.
  void turn();
  // Sleeps until something can be sent or has arrived, `most_ns` at most, and receives it. Does not
  // sleep if `ready` returns true.
  void sleep(const std::function<bool()>& ready, std::uint64_t most_ns);
  void return_turns();

  // Closes the connections in a child that was just forked. The object must not be used there.
  void close_in_child();

 private:
  Bridge(std::shared_ptr<Segment> segment, std::vector<HostSocket> sockets,
         std::chrono::milliseconds silence);

  void run();
  void wait_beside_ranks();
  bool ranks_have_turns() const;
  void look(std::uint64_t now);
  std::vector<pollfd> what_to_poll() const;
  void receive_from(const std::vector<pollfd>& entries);
  void receive_from_all();
  bool done(std::uint64_t now) const;
  void notice_own_stop(std::uint64_t now);
  void begin_leaving(std::uint64_t now);
  void send_all(std::uint64_t now);
  void note_sent_failure();
  std::uint64_t sleep_ns(std::uint64_t now) const;
  bool has_output() const;
  bool blocked() const;
  bool any_rank_waits() const;
  void receive(BridgeLink& link);
  void give_up(BridgeLink& link, FailureKind kind);
  void judge_suspect(std::uint64_t now);
  std::optional<int> find_awaited_leaver() const;
  void look_for_silent_hosts(std::uint64_t now);
  void look_for_dead_ranks(std::uint64_t now);

  std::shared_ptr<Segment> segment_;
  int rank_;  // this process's
  std::uint64_t silence_ns_;
  std::deque<BridgeLink> links_;
  std::vector<int> locals_;

  // A rank that seems to have died, and when that is recorded.
  struct Suspect {
    int rank;
    std::uint64_t judged_ns;
  };
  std::optional<Suspect> suspect_;

  std::mutex
      turns_;  // held by the thread that has the turns; guards all that follows and the links
  // The own thread leaves the connections alone until then. In monotonic_ns(); 0: no rank has them.
  std::atomic<std::uint64_t> ranks_until_ns_{0};
  bool slept_ = false;  // a rank's thread has slept with the turns
  bool rung_ = false;   // of the own thread: the doorbell has rung, so it must look
  std::atomic<bool> stop_{false};
  bool leaving_ = false;
  bool failure_is_sent_ = false;
  std::uint64_t leave_by_ns_ = 0;
  std::uint64_t next_beat_ns_ = 0;
  std::uint64_t next_look_ns_ = 0;
  std::uint64_t last_turn_ns_ = 0;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace libhvd
