// Which hosts of the allocation take part: --include, --exclude and --nnodes. A pure function, for
// any thread.
#pragma once

#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

namespace hvdrun {

// Removes hosts from the allocation; the others keep their order. allocation.reasons says what was
// left out. --exclude ignores unknown names, so that a config file can hold a list of bad hosts.
//
// Errors (kExitUsage): --include has an unknown name; no host is left; fewer than --nnodes are.
Result<void> select_hosts(const JobSpec& spec, Allocation& allocation);

}  // namespace hvdrun
