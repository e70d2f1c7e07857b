// How many slots a host has: a pure function of what the user asked for, what SLURM says, and what
// the host itself offers.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/host_request.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "resources/topology.hpp"
#include "slurm/job_environment.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hvdrun {

// Sets the slots of a host whose number the user did not say. The first that is known:
//   its GPUs: those that are visible there, or before anybody has looked, those that SLURM says
//   SLURM's tasks there, where tasks were asked for
//   its cores by the cores of a rank (--cpus-per-rank, else SLURM_CPUS_PER_TASK, else 1); before
//   anybody has looked, SLURM's CPUs by SLURM_CPUS_PER_TASK where SLURM says that it has no GPU
// Otherwise they stay open until the host has been asked.
void settle_slots(const JobSpec& spec, Host& host);

// The host has answered: keeps what it offers, and settles the slots anew.
void take_inventory(const JobSpec& spec, HostInventory inventory, Host& host);

// The hosts that the user names, with -H or in a hostfile: a pure function.

// The hosts in the order in which they are first named, each once. One that is named several times
// has the sum of its slots, as with Open MPI; without counts, one slot for each time, as batch
// systems write their node files. All names of this machine are one host.
//
// `where` is what they come from, for people: "-H", "hosts.txt". Errors (kExitUsage) name both
// places: a host has slots in one and none in another, another user or another port; the slots are
// too many to count.
Result<std::vector<Host>> requested_hosts(const JobSpec& spec,
                                          const std::vector<HostRequest>& requests,
                                          const std::string& where, const LocalMachine& machine);

// --include, --exclude and --nnodes: which of the hosts there are take part. A pure function.

// Leaves out hosts, in their order, and says so in allocation.reasons. A name in --exclude that no
// host has does no harm, so that a list of bad hosts may stand in a config file; in --include it is
// an error (kExitUsage), as are no host left and fewer than --nnodes.
Result<void> select_hosts(const JobSpec& spec, Allocation& allocation);

// Which hosts a job may use and how many slots each has: pure functions of the job, the hostfile,
// the environment, this machine and what SLURM says of its job.

// What `scontrol show job -d` prints of that job.
using DescribeJob = std::function<Result<std::string>(const std::string& job)>;

// The first that there is: -H; the hostfile; the hosts of the SLURM job; this machine. Then
// --include, --exclude and --nnodes leave some out. `hostfile` holds what was read from
// spec.hostfile (read_hostfile); it counts only where that is set. `describe` is called only for a
// SLURM job whose variables do not say on which host its GPUs are.
//
// What other hosts offer is not known here, see Host.
//
// Errors (kExitUsage): the hosts that were asked for are not there, a SLURM variable cannot be read
// (slurm/job_environment.hpp), or the cores come from HVD_TOPOLOGY, which is another machine, but
// the ranks are to start and be bound.
Result<Allocation> find_allocation(const JobSpec& spec, const std::vector<HostRequest>& hostfile,
                                   const Environment& environment, const LocalMachine& machine,
                                   const DescribeJob& describe);

// The hosts of a SLURM job: a pure function of what its variables say.

// All hosts of the job, or of the step where hvdrun was started in one. Whatever a user means by
// --ntasks-per-node, there is one rank for each GPU.
//
// This machine, where it is one of them, has been looked at. But a command of salloc is not
// confined to the job: where it does not see which GPUs are the job's, its machine is asked like
// any other, through an agent that srun starts.
//
// Error (kExitUsage): --gpus-per-task hides GPUs of this host from the step that hvdrun runs in,
// and so from the ranks; the message has the sbatch line that does not.
Result<Allocation> slurm_hosts(const JobSpec& spec, const SlurmJob& job,
                               const Environment& environment, const LocalMachine& machine);

}  // namespace hvdrun
