#include "job/blame.hpp"

#include "base/result.hpp"

namespace hvdrun {
namespace {

// Lower is more to blame.
int severity(const RankReport& rank) {
  if (rank.abort_code) return 1;
  if (rank.signal != 0 || (rank.lost_connection && rank.exit_code == 0)) return 0;
  return 2;
}

}  // namespace

bool failed_by_itself(const RankReport& rank) {
  if (rank.abort_code) return true;  // it said so, perhaps before our signal reached it
  if (!rank.exited || rank.stopped_by_us) return false;
  return rank.signal != 0 || rank.exit_code != 0 || rank.lost_connection;
}

std::optional<std::size_t> find_culprit(const std::vector<RankReport>& ranks,
                                        const std::vector<std::size_t>& order) {
  std::optional<std::size_t> culprit;
  for (const auto index : order) {
    if (!failed_by_itself(ranks[index])) continue;
    if (!culprit || severity(ranks[index]) < severity(ranks[*culprit])) culprit = index;
  }
  return culprit;
}

int exit_code_of(const RankReport& rank) {
  // Exit codes are 8 bits: 256 would come out as 0.
  if (rank.abort_code) return (*rank.abort_code & 0xff) != 0 ? *rank.abort_code & 0xff : 1;
  if (rank.signal != 0) return kExitSignalBase + rank.signal;
  return rank.exit_code != 0 ? rank.exit_code : 1;
}

}  // namespace hvdrun
