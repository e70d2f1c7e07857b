// A barrier that does not wait forever for a rank that may never come.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"

#include <chrono>

namespace libhvd {

// Waits for all ranks. Error: HVD_ERROR_TIMEOUT if a rank is not there in time; this rank can then
// no longer use the communicator. Or a collective failed. Collective.
Result<void> timed_barrier(Communicator& communicator, std::chrono::milliseconds timeout);

}  // namespace libhvd
