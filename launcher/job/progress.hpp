// What to tell of hosts on which no agent could be started: pure functions.
#pragma once

#include "base/event_loop.hpp"
#include "job/agents.hpp"
#include "job/rank_table.hpp"
#include "model/report.hpp"
#include "output/output.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct UnreachableHost {
  std::string host;
  std::string why;  // with HOST for the host's name
};

// One line a trouble, the hosts that have it folded: "n[3-7]: the login was refused (…)". HOST
// becomes the first of them.
std::vector<std::string> unreached_lines(const std::vector<UnreachableHost>& hosts);

// "could not start on n[3-7]"
std::string unreached_reason(const std::vector<UnreachableHost>& hosts);

// The line that says how far a start is, where it takes long enough for somebody to wonder.

// "hvdrun: starting: 3 of 4 hosts reached, 2 agents up, 4 of 16 ranks started"; without "of 16"
// while the table has no ranks.
std::string start_progress_text(const Agents& agents, const RankTable& table);

// Shows it from the start's first second on until end(). On the loop's thread; what it looks at
// outlives it.
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

// What the agents answer when they are asked what their ranks are doing, put together.

class StateAnswers {
 public:
  void expect(std::size_t agents);  // so many answers make a whole
  bool awaited() const { return missing_ > 0; }

  // Takes one agent's answer; all ranks' states, in the order of ranks, when it was the last. Ranks
  // that are not in a job of `size` are left out, and answers that nobody has asked for.
  std::optional<std::vector<RankState>> add(const StatesMessage& states, std::size_t size);

 private:
  std::size_t missing_ = 0;
  std::vector<RankState> ranks_;
};

// The table that SIGQUIT (Ctrl-\) prints: what every rank is doing.

class StateTable {
 public:
  void expect(std::size_t agents) { answers_.expect(agents); }  // so many answers make a table

  // Takes one agent's answer; the table's lines when it was the last, else none.
  std::vector<std::string> add(const StatesMessage& states, const std::vector<RankReport>& reports);

 private:
  StateAnswers answers_;
};

}  // namespace hvdrun
