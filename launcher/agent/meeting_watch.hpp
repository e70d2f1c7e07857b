// Watches whether the ranks of this host find the others, and what is in their way: they join no
// other rank (ConnectionWatch), each has started a launcher (NestedRanks), the host cannot connect
// to MASTER_ADDR (MasterProbe), or another program has MASTER_PORT.
//
// The agent owns it, on its loop's thread. It only reports; it cannot fail.
#pragma once

#include "agent/connection_watch.hpp"
#include "agent/held_ports.hpp"
#include "agent/master_probe.hpp"
#include "agent/nested_ranks.hpp"
#include "agent/rank_processes.hpp"
#include "base/event_loop.hpp"
#include "common/net/address.hpp"
#include "protocol/messages.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hvdrun {

class MeetingWatch {
 public:
  struct Events {
    // Returns whether the ranks have joined in a way that their connections do not show.
    std::function<bool()> joined;
    // See ConnectionWatch: apart() has changed.
    std::function<void()> on_apart;
    // Gets a text that names the host.
    std::function<void(const std::string&)> warn;
  };
  MeetingWatch(const EventLoop& loop, const RankProcesses& ranks, Events events);

  // Call it before the ranks start. `held`: the ports that this agent holds. `known`: the addresses
  // of names.
  void begin(const LaunchMessage& job, const std::vector<HeldPort>& held,
             const std::map<std::string, common::Address>& known);
  // Call it when the ranks have started.
  void ranks_started() { nested_.start(); }
  void rank_ended() { connections_.rank_ended(); }
  // Call it when no process is left.
  void finish();

  // Returns whether the ranks were seen to join. It means nothing if the job was too short.
  bool joined() const { return connections_.seen(); }
  bool was_too_short() const { return connections_.was_too_short(); }
  ApartMessage apart() const { return connections_.apart(); }

 private:
  std::function<void(const std::string&)> warn_;
  ConnectionWatch connections_;
  NestedRanks nested_;
  MasterProbe master_;
};

}  // namespace hvdrun
