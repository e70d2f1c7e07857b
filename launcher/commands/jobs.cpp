#include "commands/jobs.hpp"

#include "commands/job_progress.hpp"
#include "commands/jobs_here.hpp"
#include "commands/jobs_table.hpp"
#include "commands/subcommand.hpp"
#include "common/text.hpp"
#include "control/running_jobs.hpp"
#include "output/own_line.hpp"
#include "slurm/job_record.hpp"
#include "slurm/slurm_command.hpp"

#include <cstddef>
#include <ctime>
#include <string_view>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::string_view kJobsHelp = R"(usage: hvdrun jobs [--all] [--here] [--json] [--me]

Lists your jobs that run on this machine, each with the command to look into it. Then lists your jobs
in SLURM's queue: the state of each, why it waits and when SLURM expects it to start, how long it has
run and may still run, what it runs, and how far a training is that reports its progress, if its
output can be read here.

  --all   list also jobs that have ended, while SLURM remembers them (MinJobAge, often 5 minutes)
  --here  only those that run on this machine; SLURM is not asked
  --me    only your jobs, as without it; -u NAME with your own name does the same
  --json  print an array of objects: durations in seconds, times in seconds since 1970; without --here
          those in SLURM's queue, but where there is no SLURM those that run on this machine
  --help  this text

See also: hvdrun top, hvdrun logs, hvdrun follow JOB, hvdrun cancel JOB
)";

std::size_t terminal_columns() {
  winsize size{};
  const bool known = ::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known ? size.ws_col : 0;
}

}  // namespace

Result<int> run_jobs(const std::vector<std::string>& args, const Environment& environment) {
  bool help = false;
  bool json = false;
  bool all = false;
  bool here = false;
  bool me = false;  // squeue's words: without them it lists all users' jobs
  bool of_user = false;
  HVD_TRY(auto operands, take_flags("hvdrun jobs", args,
                                    {{"--help", &help},
                                     {"--here", &here},
                                     {"--json", &json},
                                     {"--all", &all},
                                     {"-a", &all},
                                     {"--me", &me},
                                     {"-u", &of_user},
                                     {"--user", &of_user}}));
  if (help) return print_text(kJobsHelp);
  if (of_user && operands.size() == 1) {
    const auto* const user = find_variable(environment, "USER");
    if (operands.front() != "me" && (user == nullptr || *user != operands.front()))
      return fail("hvdrun jobs lists your own jobs only; of others: squeue -u " +
                      quote_if_needed(operands.front()),
                  kExitUsage);
    operands.clear();
  }
  if (!operands.empty())
    return fail("hvdrun jobs lists all of yours; to see one: hvdrun follow " + operands.front(),
                kExitUsage);
  const auto on_this_machine =
      json && !here ? std::vector<RunningJob>() : running_jobs(environment);
  if (here && json) return print_text(jobs_here_json(on_this_machine));
  if (here && on_this_machine.empty()) print_own_line("no job of yours runs on this machine");
  const auto table = jobs_here_table(on_this_machine, std::time(nullptr), terminal_columns());
  if (here) return print_text(table);
  auto command = squeue_command();
  command.emplace_back("--me");
  if (all) command.emplace_back("--states=all");
  if (!table.empty()) print_text(table + "\n");
  auto asked = run_slurm({std::move(command), query_environment(environment), {}});
  const bool has_slurm = asked ? !has_no_cluster(*asked) : !is_not_installed(asked.error());
  if (json && !has_slurm) return print_text(jobs_here_json(running_jobs(environment)));
  if (!table.empty() && !has_slurm) return kExitOk;
  HVD_TRY(const auto end, std::move(asked));
  if (end.code != 0)
    return fail("SLURM did not list the jobs: squeue: " + complaint(end) +
                "; hvdrun jobs --here lists those that run on this machine");
  const auto jobs = parse_jobs(end.out);
  if (json) return print_text(jobs_json(jobs));
  if (jobs.empty()) print_own_line("you have no jobs in the queue");
  std::vector<std::string> progress;
  for (const auto& job : jobs) progress.push_back(progress_of(job));
  return print_text(jobs_table(jobs, std::time(nullptr), terminal_columns(), progress));
}

}  // namespace hvdrun
