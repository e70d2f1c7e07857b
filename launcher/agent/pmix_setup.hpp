// What libpmix finds in the agent's process when its server starts.
#pragma once

#include <cstddef>

struct hwloc_topology;

namespace hvdrun {

// This machine, or null: libpmix then reads it by itself, more slowly. Never freed: libpmix keeps
// it.
hwloc_topology* quick_topology();

// Settings for libpmix and hwloc inside the agent only: ranks get the caller's environment.
void prepare_pmix_environment(std::size_t local_ranks);

}  // namespace hvdrun
