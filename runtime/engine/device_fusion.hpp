// run_fused() for requests whose buffers are in device memory.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"
#include "engine/request.hpp"

#include <span>

namespace libhvd {

// The same, see fusion.hpp.
Outcome run_fused_on_device(Communicator& communicator, std::span<const Request* const> requests);

}  // namespace libhvd
