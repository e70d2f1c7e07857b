#include "job/restart.hpp"

#include "base/result.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

bool is_worth_a_restart(EndKind kind) {
  switch (kind) {
    case EndKind::rank_failed:
    case EndKind::agent_lost:
    case EndKind::start_timeout:
      return true;
    case EndKind::succeeded:
    case EndKind::stopped_early:
    case EndKind::exit_timeout:
    case EndKind::interrupted:
    case EndKind::output_failed:
    case EndKind::refused:
      return false;
  }
  return false;
}

EndKind kind_of_agent_failure(int exit_code) {
  return exit_code == kExitLauncher ? EndKind::agent_lost : EndKind::refused;
}

Allocation remaining_hosts(Allocation allocation, const std::vector<std::string>& lost) {
  std::erase_if(allocation.hosts, [&](const Host& host) {
    return !host.is_this_machine && std::find(lost.begin(), lost.end(), host.name) != lost.end();
  });
  return allocation;
}

namespace {

// An array's task by its place in the array: one of them has the array's own number, which stands
// for all. Empty: in no job.
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
                        "{} times, as often as --max-requeues allows",
                        job, before),
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
  // SLURM ends the job's processes, and perhaps scontrol among them before it can say so.
  if (end.code == 0 || end.code == kExitSignalBase + SIGTERM) return {};
  return fail(fmt::format("job {} cannot go back into the queue: {}; submit it again to go on", job,
                          complaint(end)));
}

}  // namespace hvdrun
