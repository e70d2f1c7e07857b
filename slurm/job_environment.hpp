// What SLURM's variables say about the job that this process runs in: a plain value, read from an
// environment by a pure function. The variables are those of sbatch(1), salloc(1) and srun(1),
// section OUTPUT ENVIRONMENT VARIABLES.
//
// Which of them hold depends on where hvdrun was started:
//   a batch script, a shell of salloc, a command of salloc   the job's: SLURM_JOB_NODELIST,
//       SLURM_NTASKS, SLURM_TASKS_PER_NODE. An interactive shell of salloc is a step of its own
//       kind (SLURM_STEP_ID=4294967290), and its step's variables say nothing about the job.
//   a step (srun --pty bash)   the step's: SLURM_STEP_NODELIST, SLURM_STEP_NUM_TASKS, …
// SLURM_PROCID tells nothing: batch scripts and interactive shells have it, too.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct SlurmJob {
  std::string id;    // SLURM_JOB_ID
  std::string step;  // the id of the step that hvdrun was started in; empty: in none
  // The hosts by SLURM's names, of the step where there is one. Empty: the variables do not say
  // which (pam_slurm_adopt sets SLURM_JOB_ID only).
  std::vector<std::string> hosts;
  // SLURMD_NODENAME: this machine's name in SLURM. Empty where SLURM did not start this process
  // (salloc COMMAND), which then is not confined to the job's CPUs and GPUs.
  std::string node_name;

  // By host; empty: no count of tasks was asked for. (SLURM_TASKS_PER_NODE is set even then, and
  // with a bare --exclusive it holds the number of CPUs.)
  std::vector<int> tasks;
  std::string tasks_source;          // "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"
  std::optional<int> cpus_per_task;  // SLURM_CPUS_PER_TASK; in hardware threads
  std::vector<int> cpus;             // by host, in hardware threads; empty: not said

  // By host; empty: the variables do not say (--gres sets none on a login host).
  std::vector<int> gpus;
  // "SLURM_GPUS=8": GPUs were asked for, and no variable says how many are on which host. SLURM
  // knows (count_gpus_by_host), and a step that does not ask for them all does not get them. Empty:
  // it is not so.
  std::string gpus_not_located;
  std::string gpus_source;           // the variable
  std::optional<int> gpus_per_task;  // SLURM_GPUS_PER_TASK: a step's tasks see these only

  std::vector<std::string> notes;  // for the user: variables that were passed over, and why
};

// None outside a job, which is where SLURM_JOB_ID is unset: SLURM_NTASKS alone is merely a user's
// default for srun.
//
// Errors (kExitUsage), each with the variable and what to do: a variable does not hold what it
// should; two contradict each other; the job is heterogeneous; srun has started this hvdrun as one
// of several.
Result<std::optional<SlurmJob>> slurm_job(const Environment& environment);

}  // namespace hvdrun
