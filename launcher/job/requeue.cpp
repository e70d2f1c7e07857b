#include "job/requeue.hpp"

#include "slurm/job_part.hpp"
#include "slurm/slurm_command.hpp"

#include <csignal>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

bool is_in_path(const std::string& program, const Environment& environment) {
  const auto* path = find_variable(environment, "PATH");
  if (path == nullptr) return false;
  for (std::string_view rest = *path;;) {
    const auto colon = rest.find(':');
    const auto file = std::string(rest.substr(0, colon)) + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return true;
    if (colon == std::string_view::npos) return false;
    rest.remove_prefix(colon + 1);
  }
}

}  // namespace

Result<void> check_requeue(const JobSpec& spec, const Environment& environment) {
  if (spec.max_requeues == 0 || find_job_part(environment).job.empty() ||
      is_in_path("scontrol", environment))
    return {};
  return fail(
      "--max-requeues: the job cannot go back into the queue, because scontrol is not in PATH; "
      "load "
      "SLURM's module, or add its folder to PATH");
}

Requeue plan_requeue(const JobSpec& spec, const Report& report, const Environment& environment,
                     const Result<void>& possible) {
  if (!report.stopped_early) return {{}, {}, report.exit_code};
  const auto [job, before] = find_job_part(environment);
  if (spec.max_requeues == 0)
    return {{},
            fmt::format("the program stopped before its end; exit code {}{}",
                        static_cast<int>(kExitTimeout),
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
  if (!possible)
    return {{}, "the program stopped before its end; " + possible.error().message, kExitTimeout};
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
