#include "report/stragglers.hpp"

#include "common/text.hpp"
#include "report/quantities.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr double kLeastSeconds = 1;
constexpr double kLeastShare = 0.1;
constexpr double kTimesAsLong = 4;
// A rank is stuck, and not slow, if the others waited at least this part of the time in one
// collective.
constexpr double kStuckShare = 0.5;

// Returns the median; of an even number of items, the upper of the two in the middle.
template <class T, class Value>
double median_of(std::vector<const T*> items, const Value& value) {
  const auto middle = items.begin() + static_cast<std::ptrdiff_t>(items.size() / 2);
  std::nth_element(items.begin(), middle, items.end(),
                   [&](const T* a, const T* b) { return value(*a) < value(*b); });
  return value(**middle);
}

bool are_missing(const Stragglers& stragglers, const CollectiveWait& wait) {
  return std::all_of(stragglers.ranks.begin(), stragglers.ranks.end(), [&](int rank) {
    return std::find(wait.missing.begin(), wait.missing.end(), rank) != wait.missing.end();
  });
}

double waiting_of(const RankReport& rank) {
  return rank.counters.waiting_seconds;
}

double time_of(const RankReport& rank) {
  return rank.seconds_with_others.value_or(rank.seconds);
}

// Returns the part of its time that the rank waited.
double share_of(const RankReport& rank) {
  return time_of(rank) > 0 ? waiting_of(rank) / time_of(rank) : waiting_of(rank);
}

// Returns how long the rank has surely waited in the last `seconds` of its time: it may have waited
// in all of the time before.
double waited_in_the_last(double seconds, const RankReport& rank) {
  return std::max(0.0, waiting_of(rank) - std::max(0.0, time_of(rank) - seconds));
}

// Returns whether the others waited long for a rank that was started later. What they waited before
// it had joined them is not its fault. A wait of the job's end is, if the rank was missing then.
bool is_slow_newcomer(const RankReport& rank, const std::vector<const RankReport*>& others,
                      const std::vector<CollectiveWait>& waits) {
  const double seconds = time_of(rank);
  double waited = median_of(
      others, [seconds](const RankReport& other) { return waited_in_the_last(seconds, other); });
  for (const auto& wait : waits)
    if (are_missing({.ranks = {rank.placement.rank}}, wait))
      waited = std::max(waited, std::min(wait.seconds, seconds));
  return waited >=
         std::max({kLeastSeconds, kLeastShare * seconds, kTimesAsLong * waiting_of(rank)});
}

}  // namespace

std::optional<Stragglers> find_stragglers(const std::vector<RankReport>& ranks,
                                          const std::vector<CollectiveWait>& waits) {
  std::vector<const RankReport*> joined;
  for (const auto& rank : ranks)
    if (rank.counters.joined && !rank.continued_without && !rank.never_joined)
      joined.push_back(&rank);
  if (joined.size() < 2) return std::nullopt;
  // At most half of the ranks are below the median.
  const double typical = median_of(joined, share_of);
  std::vector<const RankReport*> slow;
  std::vector<const RankReport*> others;
  for (const RankReport* rank : joined)
    (kTimesAsLong * share_of(*rank) > typical ? others : slow).push_back(rank);
  if (others.empty()) return std::nullopt;
  std::erase_if(slow, [&](const RankReport* rank) {
    return rank->seconds_with_others && !is_slow_newcomer(*rank, others, waits);
  });
  Stragglers found;
  for (const RankReport* rank : slow) {
    found.ranks.push_back(rank->placement.rank);
    found.waiting_seconds = std::max(found.waiting_seconds, waiting_of(*rank));
  }
  if (found.ranks.empty()) return std::nullopt;
  found.others_waiting_seconds = median_of(others, waiting_of);
  const double time = median_of(others, time_of);
  if (time > 0) found.share = found.others_waiting_seconds / time;
  if (found.others_waiting_seconds < kLeastSeconds || found.share < kLeastShare)
    return std::nullopt;
  for (const CollectiveWait& wait : waits)
    if (wait.seconds >= kStuckShare * found.others_waiting_seconds && are_missing(found, wait))
      found.missed = wait.collective;
  return found;
}

std::string describe_stragglers(const Stragglers& stragglers,
                                const std::vector<RankReport>& ranks) {
  const bool one = stragglers.ranks.size() == 1;
  const auto host_of = [&](int rank) { return ranks[static_cast<std::size_t>(rank)].host; };
  const auto& host = host_of(stragglers.ranks.front());
  const bool on_one_host = std::all_of(stragglers.ranks.begin(), stragglers.ranks.end(),
                                       [&](int rank) { return host_of(rank) == host; });
  const auto who = fmt::format("rank{} {}{}", one ? "" : "s", fold_ranks(stragglers.ranks),
                               on_one_host ? " on " + host : "");
  if (!stragglers.missed.empty())
    return fmt::format("{} {} stuck: {} never reached {}, in which others waited", who,
                       one ? "was" : "were", one ? "it" : "they", stragglers.missed);
  return fmt::format(
      "{} {} slow: others have waited {} in collectives ({:.0f} % of their time), {} {}", who,
      one ? "is" : "are", format_duration(stragglers.others_waiting_seconds),
      100 * stragglers.share, one ? "it" : "they at most",
      format_duration(stragglers.waiting_seconds));
}

}  // namespace hvdrun
