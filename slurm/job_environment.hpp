// What SLURM's variables say about the job that this process runs in: a plain value, read from an
// environment by a pure function. The variables are those of sbatch(1), salloc(1) and srun(1),
// section OUTPUT ENVIRONMENT VARIABLES.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>

namespace hvdrun {

struct SlurmJob {
  std::string id;         // SLURM_JOB_ID
  int nodes = 1;          // SLURM_JOB_NUM_NODES, else SLURM_NNODES
  std::string node_list;  // SLURM_JOB_NODELIST as it stands: "n1", "n[1-4]"; empty when unset
  std::string node_name;  // SLURMD_NODENAME: this machine's name in SLURM; empty under salloc
  // SLURM_NTASKS, else SLURM_NPROCS: set only where a count of tasks was asked for.
  std::optional<int> tasks;
  std::optional<int> cpus_per_task;  // SLURM_CPUS_PER_TASK; in hardware threads
  bool heterogeneous = false;        // SLURM_HET_SIZE is set: several allocations in one job
};

// None outside a job, which is where SLURM_JOB_ID is unset: SLURM_NTASKS alone is merely a user's
// default for srun. Error: a variable that should hold a count does not; the message names it.
Result<std::optional<SlurmJob>> slurm_job(const Environment& environment);

}  // namespace hvdrun
