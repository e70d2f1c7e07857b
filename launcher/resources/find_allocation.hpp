// Which hosts a job may use and how many slots each has. A function, for any thread, of the job,
// the hostfile, the environment, this machine, and what the scheduler says about its job.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/host_request.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "resources/chosen_hosts.hpp"
#include "resources/inventory.hpp"
#include "schedulers/schedulers.hpp"

#include <vector>

namespace hvdrun {

// Takes the hosts from the first of these that is given: the job of a scheduler on whose hosts
// agents can be started; -H; the hostfile; this machine, with the slots that another scheduler's
// job has on it. In a scheduler's job -H or the hostfile chooses among its hosts
// (chosen_hosts.hpp). Then --include, --exclude and --nnodes leave some out. `hostfile` holds what
// read_hostfile returned for spec.hostfile, and is ignored if that is empty. The scheduler is asked
// only if its variables do not say on which host its GPUs are, or about a host that has another
// name.
//
// If the scheduler's variables do not name the job's hosts, -H and the hostfile are reached by ssh,
// with a note.
//
// The inventories of other hosts are not known yet (see Host).
//
// Errors (kExitUsage): a host that was asked for is missing; a scheduler's variable cannot be
// read; hvdrun starts no agents on the other hosts of this scheduler's job;
// or ranks are to be started and bound by HVD_TOPOLOGY, which describes another machine.
Result<Allocation> find_allocation(const JobSpec& spec, const std::vector<HostRequest>& hostfile,
                                   const Environment& environment, const LocalMachine& machine,
                                   const HostQueries& queries = {}, Schedulers all = schedulers());

}  // namespace hvdrun
