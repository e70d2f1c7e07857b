// The steps by which the ranks find out how their clocks stand to each other.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"
#include "trace/clock_offsets.hpp"

namespace libhvd {

// This rank's clock against rank 0's, now, and the largest error of any rank. `host`: the index of
// this rank's host, whose ranks share a clock. Collective.
struct ClockReading {
  ClockMap::Estimate own;
  std::int64_t largest_error_ns = 0;
};
Result<ClockReading> compare_clocks(Communicator& communicator, int host);

}  // namespace libhvd
