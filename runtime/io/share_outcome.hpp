// Shares the outcome of work that one rank has done for all.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"

namespace libhvd {

// Returns the outcome `own` of rank `root` on all ranks; other ranks' `own` is ignored. On the
// other ranks a failure's message begins with "rank R: " and is cut after 64 KiB. Collective, on
// the caller's thread. Error: that failure; a fault of any rank's options; a collective failed. All
// ranks return the same.
Result<void> share_outcome(Communicator& communicator, const Result<void>& own, int root,
                           CallOptions options);

}  // namespace libhvd
