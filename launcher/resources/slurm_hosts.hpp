// The hosts of a SLURM job, from its environment variables. A pure function, for any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "resources/inventory.hpp"
#include "slurm/job_environment.hpp"

namespace hvdrun {

// Returns all hosts of the job, or of the step if hvdrun was started in one. Whatever the user
// meant by --ntasks-per-node, a host has one slot per GPU.
//
// If this machine is one of the hosts, its inventory is known at once. But a command of salloc is
// not confined to the job. If it does not see which GPUs are the job's, an agent that srun starts
// reports the inventory, as for any other host.
//
// Error (kExitUsage): --gpus-per-task hides GPUs of this host from the step that hvdrun runs in,
// and so from the ranks. The message has the options for sbatch that hide none.
Result<Allocation> slurm_hosts(const JobSpec& spec, const SlurmJob& job,
                               const Environment& environment, const LocalMachine& machine);

}  // namespace hvdrun
