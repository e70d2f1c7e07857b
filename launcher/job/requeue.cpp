#include "job/requeue.hpp"

#include "slurm/slurm_command.hpp"

#include <charconv>
#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Returns SLURM's id of this job; empty outside a job. A task of an array is named by its index:
// one task has the array's own number, which would name all of them.
std::string job_of(const Environment& environment) {
  const auto* array = find_variable(environment, "SLURM_ARRAY_JOB_ID");
  const auto* task = find_variable(environment, "SLURM_ARRAY_TASK_ID");
  if (array != nullptr && task != nullptr) return *array + "_" + *task;
  const auto* job = find_variable(environment, "SLURM_JOB_ID");
  return job == nullptr ? std::string() : *job;
}

int number_of(const std::string* text) {
  int number = 0;
  if (text != nullptr) std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

}  // namespace

Requeue plan_requeue(const JobSpec& spec, const Report& report, const Environment& environment) {
  if (!report.stopped_early) return {{}, {}, report.exit_code};
  const auto job = job_of(environment);
  if (spec.max_requeues == 0)
    return {{},
            fmt::format("the program stopped before its end; exit code {}{}", kExitTimeout,
                        job.empty() ? ""
                                    : "; with --max-requeues N (hvdrun sbatch --requeue) such a "
                                      "job goes back into the queue"),
            kExitTimeout};
  if (job.empty())
    return {{},
            "the program stopped before its end; this is no SLURM job that could go back into the "
            "queue",
            kExitTimeout};
  const int before = number_of(find_variable(environment, "SLURM_RESTART_COUNT"));
  if (before >= spec.max_requeues)
    return {{},
            fmt::format("the program stopped before its end; job {} has been back in the queue "
                        "{} time{}, as often as --max-requeues allows",
                        job, before, before == 1 ? "" : "s"),
            kExitTimeout};
  return {job,
          fmt::format("the program stopped before its end; job {} goes back into the queue "
                      "({} of {})",
                      job, before + 1, spec.max_requeues),
          kExitOk};
}

Result<void> requeue_job(const std::string& job, const Environment& environment) {
  ProgramRequest request;
  request.command = {"scontrol", "requeue", job};
  request.environment = query_environment(environment);
  HVD_TRY(const auto end, run_slurm(std::move(request)));
  // SLURM ends the job's processes, perhaps including scontrol before it exits.
  if (end.code == 0 || end.code == kExitSignalBase + SIGTERM) return {};
  return fail(fmt::format("job {} cannot go back into the queue: {}; submit it again to go on", job,
                          complaint(end)));
}

}  // namespace hvdrun
