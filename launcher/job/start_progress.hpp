// The line that shows the progress of a start that takes longer than a second.
#pragma once

#include "base/event_loop.hpp"
#include "job/agents.hpp"
#include "job/rank_table.hpp"
#include "output/output.hpp"

#include <string>

namespace hvdrun {

// Returns "hvdrun: starting: 3 of 4 hosts reached, 2 agents up, 4 of 16 ranks started"; without "of
// 16" while the table has no ranks.
std::string start_progress_text(const Agents& agents, const RankTable& table);

// Shows the line from one second after begin() until end(). Loop thread only. Its arguments must
// outlive it.
class StartProgress {
 public:
  StartProgress(const EventLoop& loop, const Agents& agents, const RankTable& table,
                Output& output);
  void begin();
  void end();

 private:
  void show();

  const Agents& agents_;
  const RankTable& table_;
  Output& output_;
  Timer timer_;
};

}  // namespace hvdrun
