// The line that says how far a start is, where it takes long enough for somebody to wonder.
#pragma once

#include "base/event_loop.hpp"
#include "job/agents.hpp"
#include "job/rank_book.hpp"
#include "output/output.hpp"

#include <string>

namespace hvdrun {

// "hvdrun: starting: 3 of 4 hosts reached, 2 agents up, 4 of 16 ranks started"; without "of 16"
// while the book has no ranks.
std::string start_progress_text(const Agents& agents, const RankBook& book);

// Shows it from the start's first second on until end(). On the loop's thread; what it looks at
// outlives it.
class StartProgress {
 public:
  StartProgress(const EventLoop& loop, const Agents& agents, const RankBook& book, Output& output);
  void begin();
  void end();

 private:
  void show();

  const Agents& agents_;
  const RankBook& book_;
  Output& output_;
  Timer timer_;
};

}  // namespace hvdrun
