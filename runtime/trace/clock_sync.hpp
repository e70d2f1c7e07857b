// A meeting of the ranks that does not wait for ever.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace libhvd {

// A barrier; HVD_ERROR_TIMEOUT, and the communicator is over for this rank, when some rank has not
// come in time. Collective.
Result<void> timed_barrier(Communicator& communicator, std::chrono::milliseconds timeout);

// How the clocks of hosts stand to each other, worked out from steps that all ranks took together.
//
// A step ends nowhere before it has begun everywhere. So with `before` and `after` as each rank's
// own clock shows them around a step, for ranks p and q on two hosts
//   before(p) + offset(p) <= after(q) + offset(q)
// and the other way round: each step bounds the difference from both sides (F. Cristian,
// "Probabilistic clock synchronization", Distributed Computing 3, 1989, has the idea for messages).
// The tightest of all bounds is what is left, and its midpoint the estimate.

// A rank's clock around one step, ns.
struct ClockStep {
  std::int64_t before_ns;
  std::int64_t after_ns;
};

struct RankClock {
  std::int64_t host;             // ranks of a host share its CLOCK_MONOTONIC
  std::vector<ClockStep> steps;  // the same ones on all ranks
};

struct ClockOffset {
  std::int64_t ns = 0;        // to be added to a rank's clock for rank 0's
  std::int64_t error_ns = 0;  // at most so much too large or too small
};

// One for each rank; 0 on rank 0's host, and everywhere when there is no step.
std::vector<ClockOffset> estimate_offsets(std::span<const RankClock> clocks);

// From a rank's clock to rank 0's, by estimates at two moments: clocks of two hosts drift apart by
// microseconds a second.
class ClockMap {
 public:
  struct Estimate {
    std::int64_t at_ns = 0;  // by the rank's own clock
    ClockOffset offset;
  };

  ClockMap() = default;
  explicit ClockMap(const Estimate& first) : first_(first), second_(first) {}
  ClockMap(const Estimate& first, const Estimate& second) : first_(first), second_(second) {}

  // Never decreasing.
  std::int64_t map(std::uint64_t own_ns) const;
  std::int64_t error_ns() const;

 private:
  Estimate first_;
  Estimate second_;
};

// The steps by which the ranks find out how their clocks stand to each other.

// This rank's clock against rank 0's, now, and the largest error of any rank. `host`: the index of
// this rank's host, whose ranks share a clock. `options`: the name that errors give. Collective.
struct ClockReading {
  ClockMap::Estimate own;
  std::int64_t largest_error_ns = 0;
};
Result<ClockReading> compare_clocks(Communicator& communicator, int host,
                                    const CallOptions& options);

}  // namespace libhvd
