// --include, --exclude and --nnodes: which of the hosts there are take part. A pure function.
#pragma once

#include "base/result.hpp"
#include "model/allocation.hpp"
#include "model/job_spec.hpp"

namespace hvdrun {

// Leaves out hosts, in their order, and says so in allocation.reasons. A name in --exclude that no
// host has does no harm, so that a list of bad hosts may stand in a config file; in --include it is
// an error (kExitUsage), as are no host left and fewer than --nnodes.
Result<void> select_hosts(const JobSpec& spec, Allocation& allocation);

}  // namespace hvdrun
