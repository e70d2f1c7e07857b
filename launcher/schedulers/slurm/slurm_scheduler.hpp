// SLURM, as a process in one of its jobs sees it: the row of the table of schedulers. What SLURM's
// variables and commands mean is known in slurm/.
//
// For any thread. See scheduler.hpp for what blocks.
#pragma once

#include "scheduler/scheduler.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns what SLURM_STEP_ID is for the ranks: the step in which hvdrun runs. Outside a step it is
// a number of this job's own, so that files named by it do not collide. SLURM has no such step.
std::string step_id(const Environment& caller, const std::string& job_id);

class SlurmScheduler final : public Scheduler {
 public:
  std::string_view name() const override { return "SLURM"; }
  Result<std::string> run(std::vector<std::string> command,
                          const Environment& environment) const override;

  std::optional<std::string> job_id(const Environment& environment) const override;
  // Asks `scontrol show job -d` if the variables do not say on which host the job's GPUs are.
  // Errors: those of slurm_job().
  Result<ScheduledJob> read_job(const Environment& environment, bool whole,
                                const Ask& ask) const override;
  std::optional<StartedBy> started_by() const override { return StartedBy::srun; }
  std::vector<JobHostNames> all_names(const std::vector<std::string>& hosts,
                                      const Ask& ask) const override;
  std::string line_for_gpus(int gpus, std::optional<std::size_t> hosts) const override;

  // SLURM sets ENVIRONMENT=BATCH there.
  bool is_batch(const Environment& environment) const override;
  std::string_view array_variable() const override { return "SLURM_ARRAY_TASK_ID"; }

  SchedulerVariables variables() const override;
  const std::string* gpus_here(const Environment& environment) const override;
  std::string_view no_devices() const override { return "NoDevFiles"; }
  std::vector<RankVariable> variables_here(const Environment& environment) const override;
  bool describes_ranks() const override { return true; }
  // Returns what srun would set for a step of the job's ranks. It describes these hosts and ranks,
  // not the allocation. SLURM_NTASKS_PER_NODE is set only if all hosts have the same number of
  // ranks, as its meaning requires.
  //
  // Left out are those that say how to talk to srun (SLURM_SRUN_COMM_PORT,
  // SLURM_STEP_LAUNCHER_PORT), how slurmd has bound a task (SLURM_CPU_BIND*), and the task's
  // process (SLURM_TASK_PID).
  //
  // Source: srun(1), "output environment variables".
  std::vector<RankVariable> rank_variables(const DescribedRank& rank) const override;
  std::span<const std::string_view> unknown_to_newcomers() const override;

  bool is_sender(pid_t process) const override;
  std::optional<std::chrono::milliseconds> time_after_sigterm(
      const Environment& environment) const override;
  // Agents of other hosts run in a step of srun, and report the signal.
  std::string missed_signal(const SignalQuestion& question) const override;

  JobPart part(const Environment& environment) const override;
  Result<void> check_requeue(const Environment& environment) const override;
  Result<void> requeue(const std::string& job, const Environment& environment) const override;

  // A login node has a slurm.conf, and no slurmd.
  bool is_login_node(const Environment& environment,
                     const std::filesystem::path& root) const override;
  std::string_view to_submit() const override {
    return "hvdrun sbatch submits a job, hvdrun salloc gets hosts";
  }
};

}  // namespace hvdrun
