// What the job's status line shows: how far a start is that takes longer than a second, then how
// many ranks are in hvd_init, then the progress of the training. Of a training that reports none it
// shows the time, and what its ranks use of their hosts.
//
// The attempt owns it. Loop thread only; nothing fails. Output draws the line. With --progress log
// StatusLine prints it instead: the training's progress every minute, a use every ten minutes.
#pragma once

#include "base/event_loop.hpp"
#include "job/agents.hpp"
#include "job/rank_table.hpp"
#include "model/progress.hpp"
#include "output/output.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace hvdrun {

// Returns the fields "starting: 3 of 4 hosts reached", "2 agents up", "4 of 16 ranks started";
// without "of 16" while the table has no ranks.
std::vector<std::string> start_fields(const Agents& agents, const RankTable& table);

// Returns the progress of the whole job from that of its hosts.
HostProgress sum_of_hosts(const std::map<std::size_t, HostProgress>& hosts);

// Returns how often agents report the training's progress if it is shown in this style; 0: never.
std::chrono::milliseconds progress_interval(Output::ProgressStyle style);

class StatusLine {
 public:
  // The arguments must outlive it.
  StatusLine(const EventLoop& loop, const Agents& agents, const RankTable& table, Output& output);

  // Begins with the start of the agents.
  void begin();
  // All ranks have started.
  void started();
  // Takes an agent's report.
  void take(std::size_t host_index, const ProgressMessage& message);
  // What this host has reported does not count any more.
  void lose_host(std::size_t host_index);
  // Shows the line again after it was cleared for a while.
  void show();
  // Ends it, and erases the line.
  void end();

 private:
  void show_start();
  void show_init(const HostProgress& sum);
  std::vector<std::string> use_fields_now(const UseNow& use) const;
  void print();

  const EventLoop& loop_;
  const Agents& agents_;
  const RankTable& table_;
  Output& output_;
  EventLoop::Clock::time_point begun_;
  std::map<std::size_t, HostProgress> hosts_;  // by host index
  Timer start_timer_;
  Timer init_timer_;
  Timer use_timer_;
  Timer log_timer_;
  int minutes_ = 0;  // of the log
};

}  // namespace hvdrun
