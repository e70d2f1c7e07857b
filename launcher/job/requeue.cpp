#include "job/requeue.hpp"

#include "schedulers/schedulers.hpp"

#include <utility>

#include <fmt/format.h>

namespace hvdrun {

Result<void> check_requeue(const JobSpec& spec, const Environment& environment) {
  const auto* scheduler = scheduler_of(environment);
  if (spec.max_requeues == 0 || scheduler == nullptr || scheduler->part(environment).job.empty())
    return {};
  auto possible = scheduler->check_requeue(environment);
  if (possible) return {};
  return with_context("--max-requeues", possible.error());
}

Requeue plan_requeue(const JobSpec& spec, const Report& report, const Environment& environment,
                     const Result<void>& possible) {
  if (!report.stopped_early) return {{}, {}, report.exit_code};
  const auto* scheduler = scheduler_of(environment);
  const auto [job, before] = scheduler == nullptr ? JobPart{} : scheduler->part(environment);
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
            "the program stopped before its end; this is not a job that hvdrun can put back into a "
            "scheduler's queue",
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
  const auto* scheduler = scheduler_of(environment);
  const auto done =
      scheduler == nullptr ? fail("no scheduler has it") : scheduler->requeue(job, environment);
  if (done) return {};
  return fail(fmt::format("job {} cannot go back into the queue: {}; submit it again to go on", job,
                          done.error().message));
}

}  // namespace hvdrun
