#include "report/stragglers.hpp"

#include "common/text.hpp"
#include "report/quantities.hpp"

#include <algorithm>
#include <cmath>
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

bool are_missing(const std::vector<const RankReport*>& ranks, const CollectiveWait& wait) {
  return std::ranges::all_of(ranks, [&](const RankReport* rank) {
    return std::ranges::count(wait.missing, rank->placement.rank) > 0;
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

// Returns how long one of these ranks was with the others at most; infinity if one was not started
// later.
double longest_time(const std::vector<const RankReport*>& ranks) {
  double seconds = 0;
  for (const RankReport* rank : ranks)
    seconds = std::max(seconds, rank->seconds_with_others.value_or(HUGE_VAL));
  return seconds;
}

// Returns how long the others have surely waited for these ranks, and not before one of them had
// joined. In a wait of the job's end they did, if the ranks were missing then.
// If one was there from the start: the median of their waits.
double waited_for(const std::vector<const RankReport*>& slow,
                  const std::vector<const RankReport*>& others,
                  const std::vector<CollectiveWait>& waits) {
  const double seconds = longest_time(slow);
  double waited = median_of(
      others, [seconds](const RankReport& other) { return waited_in_the_last(seconds, other); });
  for (const auto& wait : waits)
    if (std::isfinite(seconds) && are_missing(slow, wait))
      waited = std::max(waited, std::min(wait.seconds, seconds));
  return waited;
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
    return rank->seconds_with_others && waited_for({rank}, others, waits) <
                                            std::max({kLeastSeconds, kLeastShare * time_of(*rank),
                                                      kTimesAsLong * waiting_of(*rank)});
  });
  if (slow.empty()) return std::nullopt;
  Stragglers found;
  for (const RankReport* rank : slow) {
    found.ranks.push_back(rank->placement.rank);
    found.waiting_seconds = std::max(found.waiting_seconds, waiting_of(*rank));
  }
  found.others_waiting_seconds = waited_for(slow, others, waits);
  const double time = std::min(median_of(others, time_of), longest_time(slow));
  if (time > 0) found.share = found.others_waiting_seconds / time;
  if (found.others_waiting_seconds < kLeastSeconds || found.share < kLeastShare)
    return std::nullopt;
  for (const CollectiveWait& wait : waits)
    if (wait.seconds >= kStuckShare * found.others_waiting_seconds && are_missing(slow, wait))
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
