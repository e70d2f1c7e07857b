#include "agent/pmix_setup.hpp"

#include <cstdlib>

#include <hwloc.h>

namespace hvdrun {
namespace {

// Above this many ranks on a host their shared data goes through shared memory (ds21): its files
// and locks cost 9 ms at the start, but without them every rank asks the server for every other's,
// and 128 ranks that do so take 1.5 s instead of 0.6.
constexpr std::size_t kRanksByMessage = 32;

}  // namespace

// libpmix would read the whole machine with all of hwloc's plugins (about 10 ms, and one of them
// tries to reach an X server); with a topology given it reads nothing.
hwloc_topology* quick_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  if (hwloc_topology_load(topology) == 0) return topology;
  hwloc_topology_destroy(topology);
  return nullptr;
}

void prepare_pmix_environment(std::size_t local_ranks) {
  ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
  ::setenv("PMIX_MCA_gds", local_ranks > kRanksByMessage ? "ds21,hash" : "hash", 1);
  ::setenv("PMIX_MCA_psec", "native", 1);  // munge fails where munged does not run
}

}  // namespace hvdrun
