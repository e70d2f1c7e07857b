// How long a collective may wait for ranks before hvdrun says so: what the ranks' environment says,
// whoever has set it there.
#pragma once

#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace hvdrun {

// 0: nothing is said. `variables`: the job's, "NAME=VALUE". Reads HVD_STALL_CHECK_DISABLE and
// HVD_STALL_CHECK_TIME_SECONDS, and Horovod's where these are unset. Nonsense counts as unset: it
// is an error of hvd_init in the ranks.
std::chrono::milliseconds stall_time(const std::vector<std::string>& variables);

// What hvdrun says of ranks that wait for others in a collective: one line for each stall, however
// many ranks wait, and one more when it is over.
//
// An agent tells of its own ranks that wait too long. Then all agents are asked what their ranks
// are doing, as it is those that do something else whom the others wait for.

// The collectives that some ranks wait in for others, the longest first, of what all ranks of the
// job do at one moment. Those that have only begun are left out.
std::vector<CollectiveWait> find_waits(const std::vector<RankState>& states,
                                       const std::vector<RankReport>& reports);

// Adds to the ranks' counters the collective that each was in when the job was stopped, if it never
// came out of it: ranks themselves count what is over.
void count_unfinished_collectives(std::vector<RankState>& states, std::vector<RankReport>& reports);

class StallReporter {
 public:
  using Clock = std::chrono::steady_clock;

  // Takes what an agent says at `now`; the lines about stalls that are over.
  std::vector<std::string> take(const StallsMessage& stalls, Clock::time_point now);

  // Whether there is something to ask all agents about.
  bool asks() const { return !unexplained_.empty(); }

  // Takes what all ranks of the job were doing at `now`, in the order of ranks; the lines about new
  // stalls.
  std::vector<std::string> explain(const std::vector<RankState>& states,
                                   const std::vector<RankReport>& reports, Clock::time_point now);

 private:
  std::set<std::string> unexplained_;              // collectives, with their names
  std::map<std::string, Clock::time_point> told_;  // since when they wait
};

}  // namespace hvdrun
