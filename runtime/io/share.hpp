// How something went that one rank did for all.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"

namespace libhvd {

// Called by all ranks. `own` is the outcome on `root`; elsewhere it is not looked at. The answer is
// that outcome on all ranks, a failure with "rank R: " before its text elsewhere.
Outcome share_outcome(Communicator& communicator, const Outcome& own, int root,
                      const CallOptions& options);

}  // namespace libhvd
