// The ranks that the others have waited for: those that have hardly waited themselves.
#pragma once

#include "model/report.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct Stragglers {
  std::vector<int> ranks;
  double waiting_seconds = 0;         // of the one of them that has waited longest
  double others_waiting_seconds = 0;  // the median of the others
  double share = 0;                   // of the others' time that this is
};

// None where nobody has waited long: the others' median is at least a second and a tenth of their
// time, and four times what a straggler has waited. At most half of the ranks are stragglers: where
// all wait for each other in turn, nobody is to blame. Only ranks that use libhvd count.
std::optional<Stragglers> find_stragglers(const std::vector<RankReport>& ranks);

// "rank 3 on n2 is slow: others have waited 12.10 s in collectives (31 % of their time), it 0.20 s"
std::string describe_stragglers(const Stragglers& stragglers, const std::vector<RankReport>& ranks);

}  // namespace hvdrun
