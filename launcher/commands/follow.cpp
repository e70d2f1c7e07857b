#include "commands/follow.hpp"

#include "base/event_loop.hpp"
#include "commands/follower.hpp"
#include "commands/own_job.hpp"
#include "commands/subcommand.hpp"
#include "output/own_line.hpp"
#include "slurm/job_record.hpp"
#include "slurm/job_state.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <csignal>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::string_view kFollowHelp = R"(usage: hvdrun follow [--no-output] [JOB]

Shows the state of a job of yours in SLURM's queue, and its output as it grows, until it ends.
Ctrl-C leaves the job running; the same command shows it again. The exit code is the job's.

  JOB          its number, or 1234_5 for a task of an array; of a whole array only the state is
               shown. Without it: the newest of your jobs that has not ended, or the newest
  --no-output  show only the state
  --help       this text

See also: hvdrun jobs, hvdrun cancel JOB
)";

// Returns the number of the user's newest job: of those that have not ended, if there is one. The
// job of a shell in a terminal is the last choice.
Result<std::string> newest_job(const Environment& environment, bool in_terminal) {
  auto command = squeue_command();
  command.insert(command.end(), {"--me", "--states=all"});
  HVD_TRY(const auto end, run_slurm({std::move(command), query_environment(environment), {}}));
  if (end.code != 0) return fail("SLURM did not list the jobs: squeue: " + complaint(end));
  const auto jobs = parse_jobs(end.out);
  const auto age = [&](const JobRecord& job) {
    const auto id = parse_job_id(std::to_string(job.number));
    const bool is_other = !in_terminal || !id || !is_own_job(*id, environment);
    return std::tuple(is_other, phase_of(job.state) != JobPhase::ended, job.number);
  };
  const auto newest = std::ranges::max_element(jobs, {}, age);
  if (newest == jobs.end())
    return fail("you have no jobs in the queue; hvdrun follow JOB shows one that has ended",
                kExitUsage);
  return newest->id.substr(0, newest->id.find_first_of("_+"));
}

}  // namespace

Result<int> follow_job(const JobId& id, std::optional<JobOutput> output,
                       const Environment& environment) {
  if (id.kind == JobId::Kind::array_tasks)
    return fail("one task of an array is followed at a time: hvdrun follow " +
                    std::to_string(id.number) + "_N; or all of them: hvdrun follow " +
                    std::to_string(id.number),
                kExitUsage);
  block_signals(not_ignored({SIGINT, SIGTERM, SIGHUP}));
  std::signal(SIGPIPE, SIG_IGN);
  return Follower(id, environment, std::move(output)).run();
}

Result<int> run_follow(const std::vector<std::string>& args, const Environment& environment) {
  bool help = false;
  bool no_output = false;
  HVD_TRY(const auto operands,
          take_flags("hvdrun follow", args, {{"--help", &help}, {"--no-output", &no_output}}));
  if (help) return print_text(kFollowHelp);
  if (operands.size() > 1) return fail("hvdrun follow takes one job", kExitUsage);
  const bool in_terminal = ::isatty(STDOUT_FILENO) == 1;
  std::string job;
  if (operands.empty()) {
    HVD_TRY(job, newest_job(environment, in_terminal));
    print_own_line("job " + job + " is the newest of yours");
  } else {
    job = operands.front();
  }
  HVD_TRY(const JobId id, parse_job_id(job));
  // Its output goes into the file that it would show.
  if (!in_terminal && is_own_job(id, environment)) return follows_itself(id);
  return follow_job(id, no_output ? std::nullopt : std::optional(JobOutput()), environment);
}

}  // namespace hvdrun
