// A meeting of the ranks that does not wait for ever.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"

#include <chrono>

namespace libhvd {

// A barrier; HVD_ERROR_TIMEOUT, and the communicator is over for this rank, when some rank has not
// come in time. Collective.
Outcome punctual_barrier(Communicator& communicator, std::chrono::milliseconds patience);

}  // namespace libhvd
