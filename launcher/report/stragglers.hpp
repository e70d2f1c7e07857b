// The ranks that the others have waited for: those that hardly waited themselves. Pure functions.
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
};

// Returns nullopt if no rank waited long. The others waited long if their median is at least a
// second, a tenth of their time, and four times what a straggler waited. At most half of the ranks
// are stragglers: if all wait for each other in turn, none is to blame. Only ranks that use libhvd
// are considered.
std::optional<Stragglers> find_stragglers(const std::vector<RankReport>& ranks);

// Returns "rank 3 on n2 is slow: others have waited 12.10 s in collectives (31 % of their time), it
// 0.20 s".
std::string describe_stragglers(const Stragglers& stragglers, const std::vector<RankReport>& ranks);

}  // namespace hvdrun
