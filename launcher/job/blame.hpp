// Who is to blame for a failed job: a pure function, asked when everything has ended.
#pragma once

#include "model/report.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace hvdrun {

// Whether this rank ended in a way that fails the job, by itself.
bool failed_by_itself(const RankReport& rank);

// The rank that failed first, among those that had ended before hvdrun stopped the job. A signal,
// or leaving without finalize, comes before an abort, and that before an exit code: when a rank is
// killed its peers notice, and leave with an error of their own, perhaps before it was reaped.
// Among equals the one whose end was heard of first; `order` holds indices into `ranks` in that
// order.
std::optional<std::size_t> find_culprit(const std::vector<RankReport>& ranks,
                                        const std::vector<std::size_t>& order);

// What hvdrun ends with because of that rank: its own code, or 128 + signal; never 0.
int exit_code_of(const RankReport& rank);

}  // namespace hvdrun
