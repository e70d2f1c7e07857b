// How an attempt to run the job has ended, and which rank failed first. Pure functions, called when
// all ranks have ended.
#pragma once

#include "model/report.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Returns whether the rank ended by itself in a way that fails the job. A rank that reported a
// failure of its own before hvdrun stopped it also failed by itself.
bool failed_by_itself(const RankReport& rank);

// Returns whether another rank's death or leaving caused the rank's failure: it reported that, or
// ended by abort(3) or an exit code after that error of libhvd (an uncaught C++ exception).
bool failed_for_a_peer(const RankReport& rank);

// Returns whether the last exception in these lines of the rank's stderr says only that a peer has
// gone, and the rank has reported none.
bool ended_with_peer_error(const RankReport& rank, const std::vector<std::string>& last_stderr);

// Returns the rank that failed first, as an index into `ranks`, among those that failed by
// themselves; nullopt if none did. `order`: indices into `ranks` in the order of their ends.
//
// A signal, or leaving without finalize, comes before an abort, and an abort before an exit code:
// when a rank is killed, its peers notice and leave with errors of their own, perhaps before it is
// reaped. Ranks that report a failure because of a peer, or whose last exception says that one has
// gone, come last. Among equals the earliest failure comes first, by the time of the report or of
// the end.
std::optional<std::size_t> find_first_failure(const std::vector<RankReport>& ranks,
                                              const std::vector<std::size_t>& order);

// Returns whether the rank ended by its own exit(0) before hvdrun sent it a signal to end.
bool succeeded(const RankReport& rank);

// The end of an attempt. Exit code 0 and EndKind::succeeded mean that every rank succeeded, at the
// program's own end, and that no report about a rank was lost.
struct Verdict {
  EndKind kind = EndKind::succeeded;
  int exit_code = 0;
  std::string reason;                        // empty if it succeeded, or if a rank is to blame
  std::optional<std::size_t> first_failure;  // an index into the ranks
};

// A host that was found lost while the job was being stopped. Ranks in collectives notice its loss
// before the launcher can be sure. So a failure after last_heard is a consequence.
struct LostHost {
  double last_heard = 0;  // seconds, on the clock of RankReport::failed_after
  StopCause cause;
};

// Returns the verdict. `cause`: why the launcher stopped the job, if it did. An interrupt or a
// time-out that came when all ranks had succeeded changes nothing.
Verdict judge_end(const std::optional<StopCause>& cause, const std::optional<LostHost>& lost_host,
                  const std::vector<RankReport>& ranks, const std::vector<std::size_t>& order);

// Returns hvdrun's exit code for a job that this rank failed: the rank's own code, or 128 + signal;
// never 0.
int exit_code_of(const RankReport& rank);

}  // namespace hvdrun
