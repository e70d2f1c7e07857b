// Whether SLURM's signal before the time limit is of use; see slurm_scheduler.hpp.
#include "schedulers/slurm/slurm_scheduler.hpp"
#include "slurm/step_signal.hpp"
#include "slurm/warning_signal.hpp"

#include <csignal>
#include <cstdlib>

#include <unistd.h>

namespace hvdrun {
namespace {

// Returns the value of this batch job's --signal; "" if it has none, or none that can be found.
std::string signal_of_job(const Environment& environment, const Ask& ask) {
  auto signal = find_signal_option(environment);
  const auto* job = find_variable(environment, "SLURM_JOB_ID");
  if (signal.empty() && job != nullptr && ask && has_replaced_batch_script(environment))
    if (const auto script = ask({"scontrol", "write", "batch_script", *job, "-"}))
      signal = signal_option_of(*script);
  return signal;
}

// Returns the process of the batch script, unless this process has replaced it (exec); nullopt:
// this is none of a batch script. Source: sbatch(1), SLURM_TASK_PID.
std::optional<pid_t> batch_script(const Environment& environment) {
  const auto* const task = find_variable(environment, "SLURM_TASK_PID");
  const auto* const step = find_variable(environment, "SLURM_STEP_ID");
  if (task == nullptr || step != nullptr) return std::nullopt;
  const auto pid = static_cast<pid_t>(std::atoi(task->c_str()));
  if (pid <= 1 || pid == ::getpid() || ::kill(pid, 0) != 0) return std::nullopt;
  return pid;
}

}  // namespace

std::string SlurmScheduler::missed_signal(const SignalQuestion& question) const {
  const auto& environment = question.environment;
  const bool may_miss = question.is_on_one_host;
  const auto script = batch_script(environment);
  if (!may_miss && question.max_requeues == 0 && !script) return {};
  const auto signal = signal_of_job(environment, question.ask);
  if (question.max_requeues > 0)
    if (const auto why = why_not_requeued(signal); !why.empty())
      return "--max-requeues with this job's --signal=" + signal + ": " + why;
  const auto warning = parse_warning_signal(signal);
  if (script && warning && warning->for_shell && question.ends_by(*script, warning->number))
    return "SLURM sends this job's --signal=" + signal +
           " to the batch script alone, and it ends the script: start hvdrun with `exec hvdrun "
           "…`, or pass the signal on with trap";
  if (!may_miss || !warning || warning->for_shell) return {};
  return "SLURM sends this job's --signal=" + signal +
         " to steps of srun only, so no rank gets it; with --signal=B:" + signal +
         " and `exec hvdrun …` in the batch script all ranks do";
}

}  // namespace hvdrun
