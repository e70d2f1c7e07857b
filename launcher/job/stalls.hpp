// What hvdrun prints about ranks that wait for others in a collective: one line for each stall,
// however many ranks wait, and one more when it is over.
//
// An agent reports its own ranks that wait too long. Then all agents are asked what their ranks are
// doing, because the ranks that others wait for do something else. Those of an agent that does not
// answer are named. Plain values for the loop thread; nothing fails.
#pragma once

#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace hvdrun {

// Returns the collectives in which some ranks wait for others, the longest wait first. `states`:
// what all ranks of the job are doing at one moment. Leaves out collectives that have just begun.
std::vector<CollectiveWait> find_waits(const std::vector<RankState>& states,
                                       const std::vector<RankReport>& reports);

// Adds to each rank's counters the collective that it was in when the job was stopped, if it did
// not leave it. Ranks themselves add only those that have ended.
void count_unfinished_collectives(std::vector<RankState>& states, std::vector<RankReport>& reports);

// Sets RankReport::at_stop of the ranks that were alive then.
void note_activities(const std::vector<RankState>& states, std::vector<RankReport>& reports);

class StallReporter {
 public:
  using Clock = std::chrono::steady_clock;

  // Takes an agent's report at `now`. Returns the lines about stalls that are over.
  std::vector<std::string> take(const StallsMessage& stalls, Clock::time_point now);

  // Returns whether all agents must be asked what their ranks are doing.
  bool asks() const { return !unexplained_.empty(); }

  // Takes what the ranks of the job were doing at `now`, in the order of ranks. `silent`: those
  // whose agents have not answered. Returns the lines about new stalls.
  std::vector<std::string> explain(const std::vector<RankState>& states,
                                   const std::vector<int>& silent,
                                   const std::vector<RankReport>& reports, Clock::time_point now);

 private:
  std::set<std::string> unexplained_;  // collectives, with their names
  std::map<std::string, Clock::time_point>
      reported_;  // collectives, and since when ranks wait in them
};

}  // namespace hvdrun
