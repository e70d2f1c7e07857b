// How a try of a job has ended, and who is to blame where it failed: pure functions, asked when
// everything has ended.
#pragma once

#include "model/report.hpp"

#include <cstddef>
#include <optional>
#include <string>
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
std::optional<std::size_t> find_first_failure(const std::vector<RankReport>& ranks,
                                              const std::vector<std::size_t>& order);

// Whether the rank ended by its own exit(0), before any part of hvdrun had sent it a signal to end.
bool succeeded(const RankReport& rank);

// The end of a try. Exit code 0 and "well" have one meaning: every rank succeeded, at the program's
// own end, and nothing that could say otherwise was lost on the way. `cause`: why the launcher
// stopped it, if it did. A user or a time-out that would stop what has succeeded already changes
// nothing.
struct Verdict {
  EndKind kind = EndKind::succeeded;
  int exit_code = 0;
  std::string reason;                        // empty: it went well, or a rank is to blame
  std::optional<std::size_t> first_failure;  // an index into the ranks
};
// A host that was found lost while the job was being stopped. Ranks that meet in collectives notice
// that before the launcher may be sure: what failed since is a consequence.
struct LostHost {
  double last_heard = 0;  // seconds, on the clock of RankReport::failed_after
  StopCause cause;
};
Verdict judge_end(const std::optional<StopCause>& cause, const std::optional<LostHost>& lost_host,
                  const std::vector<RankReport>& ranks, const std::vector<std::size_t>& order);

// What hvdrun ends with because of that rank: its own code, or 128 + signal; never 0.
int exit_code_of(const RankReport& rank);

}  // namespace hvdrun
