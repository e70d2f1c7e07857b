// Which hosts a job may use and how many slots each has. A pure function, for any thread, of the
// job, the hostfile, the environment, this machine and SLURM's description of its job.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/host_request.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "resources/chosen_hosts.hpp"
#include "resources/inventory.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hvdrun {

// Returns the output of `scontrol show job -d` for the job with this id.
using DescribeJob = std::function<Result<std::string>(const std::string& job)>;

// Takes the hosts from the first of these that is given: the SLURM job; -H; the hostfile; this
// machine, with the slots that another scheduler's job has on it. In a SLURM job -H or the hostfile
// chooses among its hosts (chosen_hosts.hpp). Then --include, --exclude and --nnodes leave some
// out. `hostfile` holds what read_hostfile returned for spec.hostfile, and is ignored if that is
// empty. `describe` is called only for a SLURM job whose variables do not say on which host its
// GPUs are.
//
// If SLURM's variables do not name the job's hosts, -H and the hostfile are reached by ssh, with a
// note.
//
// The inventories of other hosts are not known yet (see Host).
//
// Errors (kExitUsage): a host that was asked for is missing; a SLURM variable cannot be read
// (slurm/job_environment.hpp); a job of another scheduler has other hosts (other_schedulers.hpp);
// or ranks are to be started and bound by HVD_TOPOLOGY, which describes another machine.
Result<Allocation> find_allocation(const JobSpec& spec, const std::vector<HostRequest>& hostfile,
                                   const Environment& environment, const LocalMachine& machine,
                                   const DescribeJob& describe, const HostQueries& queries = {});

}  // namespace hvdrun
