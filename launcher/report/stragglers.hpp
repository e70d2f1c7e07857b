// The ranks that the others have waited for: those that hardly waited themselves. A rank that never
// came to the collective in which the others wait is stuck, not slow. Pure functions.
#pragma once

#include "model/report.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct Stragglers {
  std::vector<int> ranks;
  double waiting_seconds = 0;         // of the straggler that waited longest
  double others_waiting_seconds = 0;  // median of the other ranks
  double share = 0;                   // others_waiting_seconds as a part of their time
  // The collective that they never reached, and for which the others waited most of that time;
  // empty: they were slow, not stuck.
  std::string missed = {};
};

// Returns nullopt if no rank waited long. The others waited long if their median is at least a
// second, a tenth of their time, and as a part of it four times what a straggler waited. At most
// half of the ranks are stragglers: if all wait for each other in turn, none is to blame. Only
// ranks that use libhvd are considered, and not those that a job has continued without, or that
// never joined it. A rank that was started later is not blamed for what the others have waited
// before it had joined them. `waits`: those of the moment when the job was stopped.
std::optional<Stragglers> find_stragglers(const std::vector<RankReport>& ranks,
                                          const std::vector<CollectiveWait>& waits = {});

// Returns "rank 3 on n2 is slow: others have waited 12.10 s in collectives (31 % of their time), it
// 0.20 s", or "rank 3 on n2 was stuck: it never reached allreduce grad, …".
std::string describe_stragglers(const Stragglers& stragglers, const std::vector<RankReport>& ranks);

}  // namespace hvdrun
