#include "commands/salloc.hpp"

#include "base/severity.hpp"
#include "base/subprocess.hpp"
#include "cli/batch_command_line.hpp"
#include "cli/nested_launcher.hpp"
#include "cli/started_commands.hpp"
#include "commands/allocation_session.hpp"
#include "commands/batch_request.hpp"
#include "commands/job_dependency.hpp"
#include "commands/subcommand.hpp"
#include "common/fd.hpp"
#include "common/shell_words.hpp"
#include "output/own_line.hpp"
#include "slurm/script_template.hpp"
#include "slurm/slurm_command.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

// Returns the command that opens a shell on the allocation's first host, if the site configures
// that for a salloc without a command (slurm.conf(5), LaunchParameters=use_interactive_step).
// Empty: the shell is to run on this host.
std::string interactive_step(const Environment& environment) {
  ProgramRequest request;
  request.command = {"scontrol", "show", "config"};
  request.environment = query_environment(environment);
  const auto end = run_slurm(std::move(request));
  if (!end || end->code != 0) return {};
  const auto value_of = [&](std::string_view name) {
    const auto at = end->out.find("\n" + std::string(name) + " ");
    if (at == std::string::npos) return std::string();
    const auto line = end->out.substr(at + 1, end->out.find('\n', at + 1) - at - 1);
    const auto equals = line.find("= ");
    return equals == std::string::npos ? std::string() : line.substr(equals + 2);
  };
  if (value_of("LaunchParameters").find("use_interactive_step") == std::string::npos) return {};
  return "srun " + value_of("InteractiveStepOptions");
}

// Returns an sh(1) command that executes `what` with the user's stderr, because salloc's own stderr
// is a pipe to us.
std::vector<std::string> shell_words(const std::string& what) {
  const auto number = std::to_string(kOtherDescriptor);
  return {"sh", "-c", "exec " + what + " 2>&" + number + " " + number + ">&-", "sh"};
}

// What runs over the allocation.
enum class Content {
  shell,    // the user's shell
  command,  // the words themselves, once: a shell, or a script that starts ranks by itself
  program,  // hvdrun with the program
};

// Returns the command that salloc runs. `exit_report` is where the hvdrun of Content::program
// reports its exit code.
std::vector<std::string> command_over_allocation(Content content, const BatchInvocation& invocation,
                                                 const BatchShape& shape,
                                                 const Environment& environment,
                                                 const Fd& exit_report) {
  if (content == Content::command) {
    auto words = shell_words("\"$@\"");
    words.insert(words.end(), invocation.command.begin(), invocation.command.end());
    return words;
  }
  if (content == Content::program) {
    auto command = inner_command(invocation, shape, environment);
    command.hvdrun.insert(command.hvdrun.begin() + 1,
                          {std::string(kReportExitArgument), std::to_string(exit_report.get())});
    auto words = shell_words("\"$@\"");
    words.insert(words.end(), command.hvdrun.begin(), command.hvdrun.end());
    words.emplace_back("--");
    words.insert(words.end(), command.program.begin(), command.program.end());
    return words;
  }
  if (const auto step = interactive_step(environment); !step.empty()) return shell_words(step);
  const auto* shell = find_variable(environment, "SHELL");
  auto words = shell_words("\"$@\"");
  words.push_back(shell == nullptr || shell->empty() ? "/bin/sh" : *shell);
  return words;
}

std::vector<std::string> salloc_words(const BatchSpec& batch, const BatchShape& shape,
                                      bool is_interactive) {
  std::vector<std::string> words{"salloc"};
  for (auto& request : slurm_requests(batch, shape)) words.push_back(std::move(request.text));
  // The signal that ends what runs over a lost allocation. Interactive shells ignore SIGTERM but
  // end on SIGHUP.
  words.emplace_back(is_interactive ? "--kill-command=HUP" : "--kill-command=TERM");
  return words;
}

// Makes a socket pair for the exit code of the hvdrun that runs over the allocation. That hvdrun
// inherits the second socket.
Result<std::pair<Fd, Fd>> make_exit_report_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail_errno("cannot make a socket pair", errno);
  std::pair pair{Fd(ends[0]), Fd(ends[1])};
  // The number has two digits, because a shell in between may use and close those with one.
  const Fd low = std::move(pair.second);
  pair.second.reset(::fcntl(low.get(), F_DUPFD, 10));
  if (!pair.second) return fail_errno("cannot make a socket pair", errno);
  return pair;
}

Result<void> check_outside_of_jobs(const Environment& environment) {
  if (const auto* job = find_variable(environment, "SLURM_JOB_ID"); job != nullptr && !job->empty())
    return fail("this is inside SLURM job " + *job + " already: hvdrun -np N program uses it",
                kExitUsage);
  return {};
}

// Returns what the words mean. Prints a note about a script that runs once. Error: a launcher would
// start in each slot.
Result<Content> session_content(const BatchInvocation& invocation, const Environment& environment) {
  const auto& command = invocation.command;
  if (command.empty()) return Content::shell;
  if (cli::is_shell_alone(command)) return Content::command;
  const cli::TypedJob typed{invocation.job, invocation.uses, environment,
                            folder_of_job(invocation.batch), "salloc"};
  if (cli::is_script_with_launcher(command, typed)) {
    print_own_line(quote_for_shell(command.front()) +
                   " runs once, as the shell of the job, because it starts ranks itself");
    return Content::command;
  }
  HVD_TRY(const auto warning, cli::check_nested_launcher(command, typed));
  if (!warning.empty()) print_own_line(warning_text(warning));
  return Content::program;
}

}  // namespace

Result<int> run_salloc(const std::vector<std::string>& args, const Environment& environment) {
  const auto find_defaults = [&](const BatchSpec& batch) -> Result<std::vector<DefaultSetting>> {
    if (batch.template_name.empty()) return std::vector<DefaultSetting>();
    HVD_TRY(const auto script, find_template(batch.template_name, batch, environment));
    return defaults_of(script);
  };
  HVD_TRY(auto invocation, parse_batch_command_line("salloc", args, environment, find_defaults));
  for (const auto& line : invocation.notes) print_own_line(line);
  if (invocation.action != BatchInvocation::Action::run) return print_text(invocation.text);
  auto& batch = invocation.batch;
  HVD_CHECK(check_outside_of_jobs(environment));
  HVD_TRY(const auto content, session_content(invocation, environment));
  const bool has_program = content == Content::program;
  complete_request(
      batch, content == Content::shell ? std::vector<std::string>{"shell"} : invocation.command);
  const auto offer = ask_for_nodes(batch, environment);
  HVD_TRY(const auto shape, shape_of_request(invocation.job, batch, offer));
  HVD_CHECK(check_nodes(shape, offer));
  for (const auto& line : request_warnings(shape, invocation.job, batch, offer))
    print_own_line(line);
  for (const auto& line : dependency_warnings(batch, environment)) print_own_line(line);
  print_own_line(describe(shape));
  Fd ours;
  Fd theirs;
  if (has_program) {
    HVD_TRY(std::tie(ours, theirs), make_exit_report_pair());
  }
  auto words = salloc_words(batch, shape,
                            content == Content::shell || cli::is_shell_alone(invocation.command));
  for (auto& word : command_over_allocation(content, invocation, shape, environment, theirs))
    words.push_back(std::move(word));
  return AllocationSession(environment, std::move(ours)).run(words);
}

}  // namespace hvdrun
