#include "commands/follow.hpp"

#include "base/event_loop.hpp"
#include "commands/follower.hpp"
#include "commands/subcommand.hpp"

#include <csignal>
#include <string_view>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::string_view kFollowHelp = R"(usage: hvdrun follow [--no-output] JOB

Shows the state of a job of yours in SLURM's queue, and its output as it grows, until it ends.
Ctrl-C leaves the job running; the same command shows it again. The exit code is the job's.

  JOB          its number, or 1234_5 for a task of an array; of a whole array only the state is shown
  --no-output  show only the state
  --help       this text

See also: hvdrun jobs, hvdrun cancel JOB
)";

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
  if (operands.size() != 1)
    return fail(operands.empty() ? "hvdrun follow needs a job's number; hvdrun jobs lists yours"
                                 : "hvdrun follow takes one job",
                kExitUsage);
  HVD_TRY(const JobId id, parse_job_id(operands.front()));
  return follow_job(id, no_output ? std::nullopt : std::optional(JobOutput()), environment);
}

}  // namespace hvdrun
