#include "trace/clock_offsets.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <map>

namespace libhvd {
namespace {

// Disciplined clocks drift far less. A larger value comes from two estimates that are close in
// time, and would distort the timeline.
constexpr double kLargestDrift = 1e-3;

// Joins the steps of all ranks of a host: the latest `before` and the earliest `after` are the
// tightest bounds.
std::vector<ClockStep> steps_of_host(std::span<const RankClock> clocks, std::int64_t host) {
  std::vector<ClockStep> tightest;
  for (const RankClock& clock : clocks) {
    if (clock.host != host) continue;
    if (tightest.empty()) tightest = clock.steps;
    for (std::size_t i = 0; i < tightest.size(); ++i) {
      tightest[i].before_ns = std::max(tightest[i].before_ns, clock.steps[i].before_ns);
      tightest[i].after_ns = std::min(tightest[i].after_ns, clock.steps[i].after_ns);
    }
  }
  return tightest;
}

ClockOffset estimate_offset(std::span<const ClockStep> reference, std::span<const ClockStep> own) {
  if (own.empty()) return {};
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < own.size(); ++i) {
    low = std::max(low, reference[i].before_ns - own[i].after_ns);
    high = std::min(high, reference[i].after_ns - own[i].before_ns);
  }
  // Drift between the first and the last step can put `low` above `high`, by as much as the drift.
  return {low + (high - low) / 2, std::abs(high - low) / 2};
}

}  // namespace

std::vector<ClockOffset> estimate_offsets(std::span<const RankClock> clocks) {
  if (clocks.empty()) return {};
  const std::int64_t first = clocks.front().host;
  const auto reference = steps_of_host(clocks, first);
  std::map<std::int64_t, ClockOffset> hosts{{first, {}}};
  std::vector<ClockOffset> offsets;
  for (const RankClock& clock : clocks) {
    if (!hosts.contains(clock.host))
      hosts[clock.host] = estimate_offset(reference, steps_of_host(clocks, clock.host));
    offsets.push_back(hosts[clock.host]);
  }
  return offsets;
}

std::int64_t ClockMap::map(std::uint64_t own_ns) const {
  const auto own = static_cast<std::int64_t>(own_ns);
  const std::int64_t between = second_.at_ns - first_.at_ns;
  double drift = 0;
  if (between > 0) {
    drift =
        static_cast<double>(second_.offset.ns - first_.offset.ns) / static_cast<double>(between);
    drift = std::clamp(drift, -kLargestDrift, kLargestDrift);
  }
  return own + first_.offset.ns + std::llround(drift * static_cast<double>(own - first_.at_ns));
}

std::int64_t ClockMap::error_ns() const {
  return std::max(first_.offset.error_ns, second_.offset.error_ns);
}

}  // namespace libhvd
