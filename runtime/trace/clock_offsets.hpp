// Estimates how much the clocks of hosts differ, from steps that all ranks took together. Pure
// functions and values.
//
// No rank ends a step before all ranks have begun it. Let `before` and `after` be what a rank's own
// clock shows around a step. For ranks p and q on two hosts,
//   before(p) + offset(p) <= after(q) + offset(q)
// and the same with p and q exchanged. So each step bounds the difference from both sides. The
// estimate is the midpoint of the tightest bounds. Source of the idea, for messages: F. Cristian,
// "Probabilistic clock synchronization", Distributed Computing 3, 1989.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace libhvd {

// A rank's clock around one step, ns.
struct ClockStep {
  std::int64_t before_ns;
  std::int64_t after_ns;
};

struct RankClock {
  std::int64_t host;             // ranks of a host share its CLOCK_MONOTONIC
  std::vector<ClockStep> steps;  // the same steps on all ranks
};

struct ClockOffset {
  std::int64_t ns = 0;        // add it to a rank's clock to get rank 0's
  std::int64_t error_ns = 0;  // `ns` is wrong by at most this, either way
};

// Returns an offset for each rank. It is 0 on rank 0's host, and everywhere if there is no step.
std::vector<ClockOffset> estimate_offsets(std::span<const RankClock> clocks);

// Converts a rank's clock to rank 0's, by estimates at two moments: the clocks of two hosts drift
// apart by microseconds a second.
class ClockMap {
 public:
  struct Estimate {
    std::int64_t at_ns = 0;  // by the rank's own clock
    ClockOffset offset;
  };

  ClockMap() = default;
  explicit ClockMap(const Estimate& first) : first_(first), second_(first) {}
  ClockMap(const Estimate& first, const Estimate& second) : first_(first), second_(second) {}

  // Never decreases with `own_ns`.
  std::int64_t map(std::uint64_t own_ns) const;
  std::int64_t error_ns() const;

 private:
  Estimate first_;
  Estimate second_;
};

}  // namespace libhvd
