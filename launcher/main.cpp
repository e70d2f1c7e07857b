// hvdrun: wires the parts together and turns errors into messages and exit codes.
#include "agent/process_tree.hpp"
#include "base/environment.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "base/signal_watch.hpp"
#include "base/version.hpp"
#include "cli/check_build.hpp"
#include "cli/command_line.hpp"
#include "cli/validate.hpp"
#include "hosts/find_allocation.hpp"
#include "hosts/inventory.hpp"
#include "job/job.hpp"
#include "job/report_json.hpp"
#include "placement/place.hpp"
#include "placement/placement_json.hpp"
#include "placement/placement_table.hpp"
#include "remote/remote_agent.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT: environ(7)

namespace hvdrun {
namespace {

void say(const std::string& text) {
  std::fputs(("hvdrun: " + text + "\n").c_str(), stderr);
}

int end_with(const Error& error) {
  say(error.message);
  return error.exit_code;
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? kExitOk : kExitLauncher;
}

// A descriptor of 0, 1, 2 that is closed would be given to the next file that is opened, and what
// ranks print would go there.
void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
}

// Children that we were executed with (a shell's `cmd & exec hvdrun …`).
std::vector<pid_t> find_children() {
  std::vector<pid_t> children;
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return children;
  for (const auto& process : all_processes())
    if (process.parent == ::getpid()) children.push_back(process.pid);
  return children;
}

void print_plan(const JobSpec& spec, const Allocation& allocation, const Placement& placement) {
  if (spec.verbosity > 0)
    std::fputs(placement_table(allocation, placement).c_str(), stderr);
  else
    for (const auto& line : placement.notes) say(line);
  if (spec.report_bindings)
    for (const auto& line : bindings_lines(allocation, placement)) say(line);
}

Result<int> run(const JobSpec& spec, JobContext context) {
  HVD_TRY(const LocalMachine machine, local_machine(context.environment));
  context.this_host = machine.name;
  HVD_TRY(const Allocation allocation, find_allocation(spec, context.environment, machine));
  HVD_TRY(const Placement placement, place(spec, allocation));
  HVD_CHECK(validate_ranks(spec, placement.size));
  if (spec.dry_run)
    return print(spec.json ? placement_json(allocation, placement)
                           : placement_table(allocation, placement));
  print_plan(spec, allocation, placement);
  if (!spec.report_file.empty()) HVD_CHECK(check_report_file(spec.report_file));
  HVD_TRY(const Report report, run_job(spec, allocation, placement, context));
  if (spec.report_file.empty()) return report.exit_code;
  if (auto written = write_report(report, spec.report_file); !written) {
    say(written.error().message);
    if (report.exit_code == kExitOk) return kExitLauncher;
  }
  return report.exit_code;
}

int main(int argc, char** argv) {
  open_standard_streams();
  if (argc == 2 && argv[1] == kAgentArgument) run_remote_agent();
  JobContext context;
  context.foreign_children = find_children();
  context.rank_signal_mask = block_signals(not_ignored(job_signals()));
  context.environment = environment_from(environ);
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);

  auto invocation = parse_command_line({argv + 1, argv + argc}, context.environment);
  if (!invocation) return end_with(invocation.error());
  for (const auto& line : invocation->notes) say(line);
  switch (invocation->action) {
    case Invocation::Action::help:
    case Invocation::Action::version:
    case Invocation::Action::explain:
      return print(invocation->text);
    case Invocation::Action::check_build:
      return print(check_build_text());
    case Invocation::Action::run:
      break;
  }
  auto code = run(invocation->spec, std::move(context));
  return code ? *code : end_with(code.error());
}

}  // namespace
}  // namespace hvdrun

int main(int argc, char** argv) {
  return hvdrun::main(argc, argv);
}
