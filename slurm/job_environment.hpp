// Reads SLURM's environment variables: hosts, tasks, CPUs and GPUs of the job that this process
// runs in. The variables are those of sbatch(1), salloc(1) and srun(1), section OUTPUT ENVIRONMENT
// VARIABLES. A plain value and a pure function, for any thread.
//
// Which variables apply depends on where hvdrun was started:
//   a batch script, a shell of salloc, a command of salloc   the job's: SLURM_JOB_NODELIST,
//       SLURM_NTASKS, SLURM_TASKS_PER_NODE. An interactive shell of salloc is a step of its own
//       kind (SLURM_STEP_ID=4294967290), and its step's variables say nothing about the job.
//   a step (srun --pty bash)   the step's: SLURM_STEP_NODELIST, SLURM_STEP_NUM_TASKS, …
// SLURM_PROCID does not distinguish them: batch scripts and interactive shells have it, too.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct SlurmJob {
  std::string id;    // SLURM_JOB_ID
  std::string step;  // the id of the step that hvdrun was started in; empty outside a step
  // The hosts by SLURM's names: the step's in a step, otherwise the job's. Empty if the variables
  // do not name them (pam_slurm_adopt sets SLURM_JOB_ID only).
  std::vector<std::string> hosts;
  std::vector<std::string> outside_step;  // the job's hosts that the step does not have
  std::string step_note;                  // says to the user that there are such hosts
  // SLURMD_NODENAME: this machine's name in SLURM. Empty if SLURM did not start this process
  // (salloc COMMAND). This process is then not confined to the job's CPUs and GPUs.
  std::string node_name;

  // By host. Empty if no number of tasks was requested: SLURM_TASKS_PER_NODE is set even then, and
  // with --exclusive alone it holds the number of CPUs.
  std::vector<int> tasks;
  std::string tasks_source;          // the variable: "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"
  std::optional<int> cpus_per_task;  // SLURM_CPUS_PER_TASK; in hardware threads
  std::vector<int> cpus;             // by host, in hardware threads; empty: unknown

  // By host. Empty if the variables do not give them (--gres sets none on a login host).
  std::vector<int> gpus;
  // The request, such as "SLURM_GPUS=8", if no variable says how many GPUs each host has; then
  // SLURM knows it: locate_gpus(). Otherwise empty. A step gets only the GPUs that it requests.
  std::string gpus_not_located;
  std::string gpus_source;           // the variable that `gpus` is from
  std::optional<int> gpus_per_task;  // SLURM_GPUS_PER_TASK: a step's tasks see these only

  std::vector<std::string> notes;  // for the user: which variables were ignored, and why
};

// Returns the numbers of the GPUs that SLURM gave on this host; nullptr if it does not say. In a
// step SLURM_JOB_GPUS is that of the host on which srun was called.
const std::string* gpus_of_slurm(const Environment& environment);

// Takes how many GPUs each host has from what `scontrol show job -d` prints about the job. If it
// does not say, the job gets a note.
void locate_gpus(SlurmJob& job, const Result<std::string>& description);

// Adds the job's other hosts to those of its step. Only the step's have known tasks and GPUs.
void use_whole_job(SlurmJob& job);

// Returns the id of the step of srun in which this process runs, as the variables say; "" if it
// runs in none. Variables that hvdrun has set for a rank describe no step of SLURM.
std::string step_of_srun(const Environment& environment);

// Returns the job that `environment` describes. Returns nullopt outside a job: SLURM_JOB_ID is
// unset or empty. (SLURM_NTASKS alone is only a user's default for srun.)
//
// Errors (kExitUsage) name the variable and what to do: a malformed variable; variables that
// contradict each other; a heterogeneous job; srun started this hvdrun as one of several tasks.
Result<std::optional<SlurmJob>> slurm_job(const Environment& environment);

}  // namespace hvdrun
