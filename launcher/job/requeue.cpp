#include "job/requeue.hpp"

#include "slurm/job_part.hpp"
#include "slurm/slurm_command.hpp"

#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

Requeue plan_requeue(const JobSpec& spec, const Report& report, const Environment& environment) {
  if (!report.stopped_early) return {{}, {}, report.exit_code};
  const auto [job, before] = find_job_part(environment);
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
