// Checks every collective of hvd.h on device memory against the expected results.
#pragma once

#include "device.hpp"

#include <cstddef>

namespace gpu_check {

// Checks all collectives with all types and operations, on all ranks and in process sets, blocking
// and in the background, up to `most` elements. All ranks call it. Returns the number of calls. The
// first wrong result ends the program with a message.
std::size_t check_collectives(Device& device, std::size_t most);

// Checks that rank 0 can call allreduce after all others have joined. All ranks call it.
void check_join(Device& device);

}  // namespace gpu_check
