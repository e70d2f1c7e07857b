#include "report/first_failure.hpp"

#include "base/result.hpp"
#include "model/traceback.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Returns whether the rank reported a failure of its own, and hvdrun stopped it before its end.
bool stopped_in_its_failure(const RankReport& rank) {
  return rank.stopped_by_us && rank.failure.reported && rank.failure.before_stop &&
         !rank.failure.because_of_peer;
}

// Returns how much the rank is to blame: less is more.
int severity(const RankReport& rank) {
  if (rank.abort_code) return 1;
  if (failed_for_a_peer(rank) || ended_with_peer_error(rank, rank.last_stderr)) return 3;
  if (rank.stopped_by_us) return 2;
  if (rank.signal != 0 || (rank.lost_connection && rank.exit_code == 0)) return 0;
  return 2;
}

// Returns whether the cause changes nothing once all ranks have succeeded: an interrupt or a
// time-out. (After the loss of an agent, output may be missing.)
bool came_too_late(const StopCause& cause) {
  return cause.kind == EndKind::interrupted || cause.kind == EndKind::exit_timeout ||
         cause.kind == EndKind::start_timeout || cause.kind == EndKind::quiet_timeout;
}

// Returns why a rank did not succeed, in an attempt that nothing has stopped.
std::string describe_unexplained(const RankReport& rank) {
  return fmt::format("rank {} on {} {}", rank.placement.rank, rank.host,
                     rank.exited ? "was stopped by its agent" : "ended in an unknown way");
}

// Returns the rank whose exit code is the job's: that of the first failure. If hvdrun's signal
// ended that rank before its own code did, returns the first other rank that ended by a code of its
// own, if there is one: ranks that fail alike exit alike.
const RankReport& rank_with_code(const std::vector<RankReport>& ranks,
                                 const std::vector<std::size_t>& order, std::size_t first_failure) {
  const RankReport& first = ranks[first_failure];
  if (first.abort_code || !stopped_in_its_failure(first) || first.signal == 0) return first;
  const auto other = std::find_if(order.begin(), order.end(), [&](std::size_t index) {
    const RankReport& rank = ranks[index];
    return failed_by_itself(rank) && !rank.stopped_by_us && rank.signal == 0 && rank.exit_code != 0;
  });
  return other != order.end() ? ranks[*other] : first;
}

}  // namespace

bool failed_by_itself(const RankReport& rank) {
  if (rank.abort_code) return true;  // perhaps before hvdrun's signal reached it
  if (!rank.exited) return false;
  if (rank.stopped_by_us) return stopped_in_its_failure(rank);
  return rank.signal != 0 || rank.exit_code != 0 || rank.lost_connection;
}

bool failed_for_a_peer(const RankReport& rank) {
  if (rank.failure.reported) return rank.failure.because_of_peer;
  const bool is_way_out = rank.signal == SIGABRT || (rank.signal == 0 && rank.exit_code != 0);
  return rank.exited && rank.error_of_peer && is_way_out;
}

bool ended_with_peer_error(const RankReport& rank, const std::vector<std::string>& last_stderr) {
  return !rank.failure.reported && is_peer_error(last_exception(last_stderr));
}

std::optional<std::size_t> find_first_failure(const std::vector<RankReport>& ranks,
                                              const std::vector<std::size_t>& order) {
  std::optional<std::size_t> first_failure;
  for (const auto index : order) {
    if (!failed_by_itself(ranks[index])) continue;
    const auto key = [&](std::size_t i) {
      return std::pair(severity(ranks[i]), ranks[i].failed_after);
    };
    if (!first_failure || key(index) < key(*first_failure)) first_failure = index;
  }
  return first_failure;
}

bool succeeded(const RankReport& rank) {
  return rank.exited && !rank.stopped_by_us && !failed_by_itself(rank);
}

Verdict judge_end(const std::optional<StopCause>& cause, const std::optional<LostHost>& lost_host,
                  const std::vector<RankReport>& ranks, const std::vector<std::size_t>& order) {
  const auto odd = std::find_if_not(ranks.begin(), ranks.end(), succeeded);
  const bool all_succeeded = odd == ranks.end() && !ranks.empty();
  Verdict verdict;
  if (all_succeeded && (!cause || came_too_late(*cause))) {
    const bool is_early = std::any_of(ranks.begin(), ranks.end(), [](const RankReport& rank) {
      return rank.counters.had_to_stop;
    });
    if (is_early)
      verdict = {EndKind::stopped_early, kExitTimeout, "the program stopped before its end",
                 std::nullopt};
    return verdict;
  }
  const auto blame = [&verdict](const StopCause& its) {
    verdict.kind = its.kind;
    verdict.reason = its.reason;
    const int code = its.exit_code.value_or(kExitLauncher);
    verdict.exit_code = code != kExitOk ? code : kExitLauncher;
    return verdict;
  };
  if (cause && cause->exit_code) return blame(*cause);
  const auto first_failure = find_first_failure(ranks, order);
  if (lost_host && (!first_failure || ranks[*first_failure].failed_after >= lost_host->last_heard))
    return blame(lost_host->cause);
  verdict.first_failure = first_failure;
  verdict.kind = cause ? cause->kind : EndKind::rank_failed;
  if (verdict.first_failure) {
    verdict.exit_code = exit_code_of(rank_with_code(ranks, order, *verdict.first_failure));
    return verdict;
  }
  // No rank is to blame, but the job has not succeeded.
  if (!cause) verdict.kind = EndKind::agent_lost;
  verdict.exit_code = kExitLauncher;
  if (cause && !cause->reason.empty())
    verdict.reason = cause->reason;
  else if (odd != ranks.end())
    verdict.reason = describe_unexplained(*odd);
  return verdict;
}

int exit_code_of(const RankReport& rank) {
  // Exit codes are 8 bits: 256 would come out as 0.
  if (rank.abort_code) return (*rank.abort_code & 0xff) != 0 ? *rank.abort_code & 0xff : 1;
  if (stopped_in_its_failure(rank) && rank.signal != 0) return 1;  // the signal is hvdrun's own
  if (rank.signal != 0) return kExitSignalBase + rank.signal;
  return rank.exit_code != 0 ? rank.exit_code : 1;
}

}  // namespace hvdrun
