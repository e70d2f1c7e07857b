// Room for descriptors: an agent needs several for each rank.
#pragma once

#include <cstddef>

#include <sys/resource.h>

namespace hvdrun {

// Raises this process's limit (RLIMIT_NOFILE) as far as `wanted` needs and the system allows, and
// lets the kernel make the table of descriptors that large now. Call it while there is one thread:
// a table that grows under several threads waits for all processors each time, some 10 ms (Linux,
// expand_fdtable). Returns the limit from before, which ranks are to have.
rlimit make_room_for_descriptors(std::size_t wanted);

}  // namespace hvdrun
