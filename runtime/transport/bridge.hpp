// The bridge of a host: a thread of one of its ranks that carries what the ranks of this host
// publish to all other hosts, and writes what comes from there into the blocks of the ranks there.
// So every host's segment is a replica of all others', and the collectives need not know of hosts;
// each element is reduced in the same order everywhere.
//
// Why nothing is overwritten while it is needed: a rank that has come back from step t+1 has seen,
// in its own host's segment, that every rank has published t+1. A rank on another host publishes
// t+1 only after it has seen everybody's t there, so by then all bridges have passed on what was
// written for t in full: its area may be written again. On the other side, the area of a step is
// overwritten by that of t+2, which its rank publishes only after it has seen t+1 of all who read
// it; and whoever has published t+1 has finished reading t. This is the rule of step_barrier.hpp.
//
// What ends the job for a host goes the same way: that a rank has left, and the first failure that
// was found, whoever found it. The rank with the bridge goes on with that failure only when the
// bridge has told it (Segment::wait_until_failure_is_told), as it may end because of it. A bridge
// finds these by itself:
//  - a rank of its own host that is dead, while somebody waits (within 20 ms);
//  - a connection that ends without a goodbye: the process with the bridge there has died. It may
//    have ended because of another failure, word of which is on its way: so this is said after 20
//    ms unless another one is known by then;
//  - a host from which nothing has come for `silence`, and whose kernel has not acknowledged what
//    was sent there: every bridge sends a beat a second. A rank that stands still (stopped, swapped
//    out, waiting for a file system) is waited for, as on one host. A bridge that was itself
//    stopped (job control, a debugger) starts to count anew.
//
// One thread, asleep in poll(2) when there is nothing to do. It takes no signals. A forked child
// has no bridge, and must close what it has inherited of it: else a dead rank's connections would
// stay open.
#pragma once

#include "base/result.hpp"
#include "transport/bridge_link.hpp"
#include "transport/segment.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace libhvd {

// A connection to the bridge of another host, which has proven itself.
struct HostSocket {
  int host;  // its index
  Connection socket;
};

class Bridge {
 public:
  // The segment spans hosts (Segment::set_places) and names a rank of this process as its bridge.
  // `silence` 0: wait for silent hosts for ever. Error: there can be no thread.
  static Result<std::unique_ptr<Bridge>> start(std::shared_ptr<Segment> segment,
                                               std::vector<HostSocket> sockets,
                                               std::chrono::milliseconds silence);

  // Leaves: sends what is published, says goodbye, and waits shortly until the others have heard
  // it. The rank has left the segment before.
  ~Bridge();

  // In a child just forked: closes the connections. The object is of no use there.
  void close_in_child();

 private:
  Bridge(std::shared_ptr<Segment> segment, std::vector<HostSocket> sockets,
         std::chrono::milliseconds silence);

  void run();
  bool done(std::uint64_t now) const;
  void notice_own_stop(std::uint64_t now);
  void begin_leaving(std::uint64_t now);
  void send_all(std::uint64_t now);
  void note_whether_failure_is_told();
  void sleep(std::uint64_t now);
  int sleep_ms(std::uint64_t now) const;
  bool has_news() const;
  bool somebody_waits() const;
  void receive(BridgeLink& link);
  void give_up(BridgeLink& link, FailureKind kind);
  void judge_suspect(std::uint64_t now);
  std::optional<int> leaver_in_the_way() const;
  void look_for_silent_hosts(std::uint64_t now);
  void look_for_dead_ranks(std::uint64_t now);

  std::shared_ptr<Segment> segment_;
  int rank_;  // ours
  std::uint64_t silence_ns_;
  std::deque<BridgeLink> links_;
  std::vector<int> locals_;

  // A rank that seems to have died, and when that is said.
  struct Suspect {
    int rank;
    std::uint64_t judged_ns;
  };
  std::optional<Suspect> suspect_;

  std::atomic<bool> stop_{false};
  bool leaving_ = false;
  bool failure_is_told_ = false;
  std::uint64_t leave_by_ns_ = 0;
  std::uint64_t next_beat_ns_ = 0;
  std::uint64_t next_look_ns_ = 0;
  std::uint64_t last_turn_ns_ = 0;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace libhvd
