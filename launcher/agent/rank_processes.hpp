// The ranks of one host as processes: it starts them, reaps them and sends them signals.
//
// The agent owns it, on its loop thread. That thread and those of the SpawnPool must live as long
// as the ranks, because a rank dies with the thread that has started it. Only start() can fail.
#pragma once

#include "agent/pipe_writes.hpp"
#include "agent/spawn.hpp"
#include "agent/stream_order.hpp"
#include "common/fd.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvdrun {

struct RankProcess {
  int rank = 0;
  std::size_t index = 0;  // among the ranks that this host was asked to start
  pid_t pid = 0;
  std::chrono::steady_clock::time_point started;
  bool alive = false;
  bool died_before_stop = false;  // by itself
  bool killed = false;            // by kill()
  int wait_status = 0;            // once not alive
};

// The parent's ends of a rank's standard streams. Of a rank with a terminal all are one
// (PseudoTerminal::ours).
struct RankPipes {
  Fd input;                                 // invalid when the rank reads /dev/null
  std::shared_ptr<StreamOrder> order = {};  // nullptr: not looked at
  Fd output;
  Fd error;     // invalid if the rank has a terminal
  Fd terminal;  // valid if the rank has one
};

// Both ends of a rank's standard streams while it is being started.
struct RankStreams {
  Fd child_input;  // invalid when the rank reads /dev/null
  Fd child_output;
  Fd child_error;
  RankPipes ours;
};

class RankProcesses {
 public:
  // `descriptor_limit` applies to the ranks of a job that sets no limits. `writes` reports the
  // order of their two streams.
  RankProcesses(rlimit descriptor_limit, PipeWrites& writes);

  struct Start {
    const LaunchRank* rank;
    std::vector<std::string> environment;  // the whole environment: "NAME=VALUE"
    int inherited;                         // a descriptor that stays open in the rank
  };
  // Starts ranks, several at a time. all() then has those that have started, in order, after the
  // earlier ones, and `pipes` has the pipes of each. `first`: the index of the first. Error: that
  // of the first rank that could not be started; others may run.
  Result<void> start(const LaunchMessage& job, std::vector<Start> starts, std::size_t first,
                     std::vector<RankPipes>& pipes);

  struct Exit {
    std::size_t index;  // in all()
    double user_seconds;
    double system_seconds;
    std::uint64_t peak_memory_bytes;
  };
  // Reaps every child that has ended, also orphans of ranks. Returns the ranks among them.
  std::vector<Exit> reap();

  // Sends the signals, in order, to every rank's process group, then to all other processes that
  // ranks have started.
  void signal_all(std::initializer_list<int> signals) const;

  // Kills a rank with its processes.
  void kill(int rank);

  // Marks the ranks that have died before the stop. Ranks that die from now on are not marked,
  // because the stop may have ended them.
  void begin_stop();

  // Returns whether neither a rank lives nor a process that outlives its rank.
  bool none_left() const;
  bool any_rank_alive() const { return alive_ > 0; }
  // Returns 0 if the rank has ended or was not started.
  pid_t pid_of(int rank) const;
  const std::vector<RankProcess>& all() const { return ranks_; }

 private:
  // Starts the ranks of a group, the first of which has this index. `null` is /dev/null.
  Result<void> start_group(const LaunchMessage& job, std::span<Start> group, std::size_t first,
                           int null, std::vector<RankPipes>& pipes);
  SpawnRequest request_for(const LaunchMessage& job, Start& start, const RankStreams& streams,
                           int null) const;

  rlimit descriptor_limit_;
  PipeWrites& writes_;
  SpawnPool pool_;
  std::vector<RankProcess> ranks_;
  int alive_ = 0;
  bool stopping_ = false;
};

}  // namespace hvdrun
