// Which hosts a job may use and how many slots each has: pure functions of the job, the hostfile,
// the environment, this machine and what SLURM says of its job.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "hosts/inventory.hpp"
#include "model/allocation.hpp"
#include "model/host_request.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hvdrun {

// What `scontrol show job -d` prints of that job.
using DescribeJob = std::function<Result<std::string>(const std::string& job)>;

// The first that there is: -H; the hostfile; the hosts of the SLURM job; this machine. Then
// --include, --exclude and --nnodes leave some out. `hostfile` holds what was read from
// spec.hostfile (read_hostfile); it counts only where that is set. `describe` is called only for a
// SLURM job whose variables do not say on which host its GPUs are.
//
// What other hosts offer is not known here, see Host. Slots: slots.hpp.
//
// Errors (kExitUsage) are those of requested_hosts.hpp, slurm/job_environment.hpp, slurm_hosts.hpp
// and select_hosts.hpp; and the cores come from HVD_TOPOLOGY, which is another machine, but the
// ranks are to start and be bound.
Result<Allocation> find_allocation(const JobSpec& spec, const std::vector<HostRequest>& hostfile,
                                   const Environment& environment, const LocalMachine& machine,
                                   const DescribeJob& describe);

}  // namespace hvdrun
