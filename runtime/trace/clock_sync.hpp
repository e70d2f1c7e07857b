// Compares the clocks of all ranks over the communicator.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"
#include "trace/clock_offsets.hpp"

#include <cstdint>

namespace libhvd {

struct ClockReading {
  ClockMap::Estimate own;             // this rank's clock against rank 0's, now
  std::int64_t largest_error_ns = 0;  // of any rank
};

// Compares this rank's clock with rank 0's. `host`: the index of this rank's host; its ranks share
// a clock. `options`: its name appears in errors. Collective. Error: a collective failed.
Result<ClockReading> compare_clocks(Communicator& communicator, int host,
                                    const CallOptions& options);

}  // namespace libhvd
