// The hosts of a SLURM job: a pure function of what its variables say.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "resources/topology.hpp"
#include "slurm/job_environment.hpp"

namespace hvdrun {

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
