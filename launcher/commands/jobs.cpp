#include "commands/jobs.hpp"

#include "commands/job_progress.hpp"
#include "commands/jobs_table.hpp"
#include "commands/subcommand.hpp"
#include "common/text.hpp"
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

constexpr std::string_view kJobsHelp = R"(usage: hvdrun jobs [--all] [--json] [--me]

Lists your jobs in SLURM's queue: the state of each, why it waits and when SLURM expects it to
start, how long it has run and may still run, what it runs, and how far a training is that
reports its progress, if its output can be read here.

  --all   list also jobs that have ended, while SLURM remembers them (MinJobAge, often 5 minutes)
  --me    only your jobs, as without it; -u NAME with your own name does the same
  --json  print an array of objects: durations in seconds, times in seconds since 1970
  --help  this text

See also: hvdrun follow JOB, hvdrun cancel JOB
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
  bool me = false;  // squeue's words: without them it lists all users' jobs
  bool of_user = false;
  HVD_TRY(auto operands, take_flags("hvdrun jobs", args,
                                    {{"--help", &help},
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
  auto command = squeue_command();
  command.emplace_back("--me");
  if (all) command.emplace_back("--states=all");
  HVD_TRY(const auto end, run_slurm({std::move(command), query_environment(environment), {}}));
  if (end.code != 0) return fail("SLURM did not list the jobs: squeue: " + complaint(end));
  const auto jobs = parse_jobs(end.out);
  if (json) return print_text(jobs_json(jobs));
  if (jobs.empty()) print_own_line("you have no jobs in the queue");
  std::vector<std::string> progress;
  for (const auto& job : jobs) progress.push_back(progress_of(job));
  return print_text(jobs_table(jobs, std::time(nullptr), terminal_columns(), progress));
}

}  // namespace hvdrun
