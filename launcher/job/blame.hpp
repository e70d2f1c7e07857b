// Who is to blame for a failed job: a pure function, asked when everything has ended.
#pragma once

#include "model/report.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace hvdrun {

// Whether this rank ended in a way that fails the job, by itself. One that told of a failure before
// hvdrun stopped it counts as well, unless it was another rank's.
bool failed_by_itself(const RankReport& rank);

// Whether it told of a failure that another rank's death or leaving had brought about.
bool failed_for_a_peer(const RankReport& rank);

// The rank that failed first, among those that had ended before hvdrun stopped the job. A signal,
// or leaving without finalize, comes before an abort, and that before an exit code: when a rank is
// killed its peers notice, and leave with an error of their own, perhaps before it was reaped. Last
// come those that say that they failed for a peer.
// Among equals the one that told of its failure, or whose end was heard of, first; `order` holds
// indices into `ranks` in the order of ends.
std::optional<std::size_t> find_culprit(const std::vector<RankReport>& ranks,
                                        const std::vector<std::size_t>& order);

// What hvdrun ends with because of that rank: its own code, or 128 + signal; never 0.
int exit_code_of(const RankReport& rank);

}  // namespace hvdrun
