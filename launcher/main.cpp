// hvdrun: wires the parts together and turns errors into messages and exit codes.
#include "agent/process_tree.hpp"
#include "agent/rank_looker.hpp"
#include "agent/signal_targets.hpp"
#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/files.hpp"
#include "base/resource_limits.hpp"
#include "base/result.hpp"
#include "base/severity.hpp"
#include "base/version.hpp"
#include "cli/check_build.hpp"
#include "cli/command_line.hpp"
#include "cli/help.hpp"
#include "cli/named_files.hpp"
#include "commands/allocation_session.hpp"
#include "commands/commands.hpp"
#include "common/fd.hpp"
#include "common/interfaces.hpp"
#include "common/net/lookup.hpp"
#include "common/text.hpp"
#include "common/uncaught.hpp"
#include "job/job.hpp"
#include "job/plan.hpp"
#include "job/rank_environment.hpp"
#include "job/requeue.hpp"
#include "job/terminal_rank.hpp"
#include "look/look_program.hpp"
#include "model/job_part.hpp"
#include "output/own_line.hpp"
#include "remote/remote_agent.hpp"
#include "remote/srun_agent.hpp"
#include "report/report_json.hpp"
#include "resources/chosen_devices.hpp"
#include "resources/find_allocation.hpp"
#include "resources/hostfile.hpp"
#include "resources/interface_choice.hpp"
#include "resources/inventory.hpp"
#include "resources/login_node.hpp"
#include "resources/placement_json.hpp"
#include "resources/placement_table.hpp"
#include "schedulers/schedulers.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT: environ(7)

namespace hvdrun {
namespace {

int end_with(const Error& error) {
  print_own_line(error_text(error.message));
  return error.exit_code;
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) == 0) return kExitOk;
  return errno == EPIPE ? kExitSignalBase + SIGPIPE : kExitLauncher;
}

// A descriptor of 0, 1, 2 that is closed would be given to the next file that is opened, and what
// ranks print would go there.
void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
}

// Undoes what our parent has done to signals: none is blocked, and SIGCHLD is not ignored, which
// would hide the end of children. Those with which a user or a shell ends, stops or asks a program
// stay ignored where they are (nohup, a shell's "&").
void take_over_signals() {
  auto kept = job_signals();
  kept.insert(kept.end(), {SIGTTIN, SIGTTOU});
  struct sigaction action {};
  for (int signal = 1; signal < NSIG; ++signal)
    if (std::find(kept.begin(), kept.end(), signal) == kept.end() &&
        ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      ::signal(signal, SIG_DFL);
  ::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files: write(2) says so
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
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

HostQueries host_queries(const Scheduler* scheduler, const Environment& environment) {
  // Of a name server that does not answer. Only a name that is none of the scheduler's is looked
  // up.
  static constexpr std::chrono::seconds kPatience{5};
  HostQueries queries;
  if (scheduler != nullptr)
    queries.ask = [&environment, scheduler](const std::vector<std::string>& command) {
      return scheduler->run(command, environment);
    };
  queries.addresses = [](const std::vector<std::string>& names) {
    std::vector<std::vector<std::string>> found;
    common::Lookup lookup(names);
    for (std::size_t i = 0; i < names.size(); ++i) {
      auto& addresses = found.emplace_back();
      for (const auto& address : lookup.next(kPatience))
        if (!address.is_loopback()) addresses.push_back(address.host());
    }
    return found;
  };
  return queries;
}

// Returns a warning if the scheduler's signal before the time limit reaches none of the ranks, or
// keeps the job from going back into the queue; otherwise "".
std::string missed_signal(const JobSpec& spec, const Plan& plan, const Environment& environment) {
  const auto* scheduler = scheduler_of(environment);
  if (plan.allocation.from != HostSource::scheduler || scheduler == nullptr) return {};
  const auto warning = scheduler->missed_signal(
      {environment, plan.placement.hosts.size() == 1, spec.max_requeues,
       [](pid_t process, int signal) { return use_of(process, signal) == SignalUse::none; },
       host_queries(scheduler, environment).ask});
  return warning.empty() ? std::string() : warning_text(warning);
}

// Returns what --network-interface chooses of this machine's interfaces, if ranks may run here.
Result<std::vector<std::string>> own_interfaces(const JobSpec& spec, const Plan& plan) {
  const auto& choice = spec.remote.network_interface;
  const auto hosts = hosts_to_start(plan);
  const auto here = std::ranges::find_if(hosts, &Host::is_this_machine);
  if (choice.empty() || here == hosts.end()) return std::vector<std::string>{};
  const auto names = common::interface_names();
  if (!names) return fail_errno("cannot list this host's network interfaces", names.error());
  auto chosen = choose_interfaces(choice, *names);
  if (chosen) return chosen;
  return fail(here->name + " has " + chosen.error().message, chosen.error().exit_code);
}

// Returns a warning if several ranks are to find each other on this machine and cannot; otherwise
// "".
std::string missing_loopback(const Plan& plan) {
  const auto addresses = common::interface_addresses();
  const bool is_there = !addresses || std::ranges::any_of(*addresses, [](const auto& one) {
    return common::is_loopback(one.address);
  });
  if (is_there || plan.placement.size < 2) return {};
  return warning_text(
      "this machine has no address 127.0.0.1, at which ranks here find each other: the interface "
      "lo is down or missing (ip link set lo up)");
}

// Returns the hosts of the job. Writes into the environment, and into the job for other hosts,
// which devices the user has chosen. Error: the hostfile, an option or a scheduler names hosts
// that cannot be used.
Result<Allocation> find_hosts(JobSpec& spec, Environment& environment) {
  auto devices = choose_devices(environment);
  spec.remote.devices = std::move(devices.elsewhere);
  HVD_TRY(const LocalMachine machine, local_machine(environment));
  std::vector<HostRequest> hostfile;
  if (!spec.hostfile.empty()) {
    HVD_TRY(hostfile, read_hostfile(spec.hostfile));
  }
  HVD_TRY(auto allocation, find_allocation(spec, hostfile, environment, machine,
                                           host_queries(scheduler_of(environment), environment)));
  auto& notes = allocation.notes;
  notes.insert(notes.end(), devices.notes.begin(), devices.notes.end());
  if (std::ranges::any_of(allocation.hosts, [](const Host& host) { return !host.is_this_machine; }))
    notes.insert(notes.end(), devices.notes_elsewhere.begin(), devices.notes_elsewhere.end());
  return allocation;
}

// Returns a warning if the ranks' command names a file that only other hosts may have; otherwise
// "". Error: the file is missing on this machine, and ranks may run here.
Result<std::string> missing_file(const JobSpec& spec, const Plan& plan,
                                 const Environment& environment) {
  auto missing = cli::find_missing_file(spec.command, spec, environment, spec.working_directory);
  if (!missing) return std::string();
  if (std::ranges::any_of(hosts_to_start(plan), &Host::is_this_machine))
    return std::move(missing->error);
  return warning_text(missing->error.message + "; the job fails unless the ranks' hosts have it");
}

Result<int> run(JobSpec spec, JobContext& context) {
  Plan plan;
  HVD_TRY(plan.allocation, find_hosts(spec, context.environment));
  HVD_CHECK(place_ranks(spec, plan));
  HVD_TRY(const auto missing, missing_file(spec, plan, context.environment));
  HVD_CHECK(settle_named_ranks(spec, plan));
  if (plan.placement.to_ask.empty()) HVD_CHECK(check_named_ranks(spec, plan.placement.size));
  HVD_TRY(const auto interfaces, own_interfaces(spec, plan));
  if (spec.dry_run)
    return print(spec.json ? placement_json(plan.allocation, plan.placement)
                           : placement_table(plan.allocation, plan.placement));
  if (spec.print_env) {
    HVD_TRY(const auto text, environment_text(spec, plan, context.environment, interfaces));
    return print(text);
  }
  if (is_final(plan.placement))
    for (const auto& line : plan_lines(spec, plan)) print_own_line(line, spec.output.color);
  for (const auto& warning :
       {missing, missed_signal(spec, plan, context.environment), missing_loopback(plan)})
    if (!warning.empty()) print_own_line(warning, spec.output.color);
  HVD_TRY(const auto login, check_login_node(spec, plan.allocation, context.environment));
  if (!login.empty()) print_own_line(login, spec.output.color);
  HVD_CHECK(settle_terminal(spec, plan));
  block_signals(not_ignored(job_signals()));
  const auto may_requeue = check_requeue(spec, context.environment);
  if (!may_requeue) print_own_line(warning_text(may_requeue.error().message), spec.output.color);
  if (const auto* scheduler = scheduler_of(context.environment))
    spec.output.part = scheduler->part(context.environment);
  for (const auto& file : {spec.report_file, spec.timeline_file})
    HVD_CHECK(keep_earlier_part(file, spec.output.part));
  if (!spec.report_file.empty()) HVD_CHECK(check_report_file(spec.report_file));
  HVD_TRY(Report report, run_job(spec, std::move(plan), context));
  const auto requeue = plan_requeue(spec, report, context.environment, may_requeue);
  report.exit_code = requeue.exit_code;
  int code = report.exit_code;
  const auto check = [&](const Result<void>& done) {
    if (done) return;
    print_own_line(error_text(done.error().message), spec.output.color);
    if (code == kExitOk) code = kExitLauncher;
  };
  if (!spec.report_file.empty()) check(write_report(report, spec.report_file));
  if (!requeue.note.empty()) print_own_line(requeue.note, spec.output.color);
  if (!requeue.job.empty()) check(requeue_job(requeue.job, context.environment));
  return code;
}

// Runs in a process of an agent, which may be killed with it.
int run_look(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, kLookProcess);
  return look_program(argc, argv);
}

int run_words(int argc, char** argv) {
  if (argc > 2 && argv[1] == kLookArgument) return run_look(argc - 1, argv + 1);
  if (argc == 2 && argv[1] == kAgentArgument) run_remote_agent(false);
  if (argc == 3 && argv[1] == kAgentArgument && argv[2] == kHereArgument) run_remote_agent(true);
  if (argc == 3 && argv[1] == kAgentArgument && argv[2] == kSrunArgument) run_srun_agent();
  if (argc > 3 && argv[1] == kAgentArgument && argv[2] == kCleanupArgument)
    return run_cleanup({argv + 3, argv + argc});
  if (argc > 2 && argv[1] == kSallocArgument) return exec_salloc(argv + 2);
  const std::string called = std::filesystem::path(argc > 0 ? argv[0] : "").filename();
  const bool has_commands = called != kHorovodrun;
  if (const Command command = has_commands && argc > 1 ? find_command(argv[1]) : nullptr;
      command != nullptr) {
    const auto code = command({argv + 2, argv + argc}, environment_from(environ));
    return code ? *code : end_with(code.error());
  }
  if (argc == 1) {
    std::fputs(cli::short_help_text().c_str(), stderr);
    return kExitUsage;
  }
  JobContext context;
  context.foreign_children = find_children();
  // They wait for the job. The others end or stop us as any program, also while a file keeps us
  // waiting: a FIFO, a file system that hangs.
  block_signals(not_ignored({SIGQUIT, SIGUSR1, SIGUSR2}));
  context.environment = environment_from(environ);
  context.limits = limits_that_travel();
  context.umask = static_cast<int>(::umask(0));
  ::umask(static_cast<mode_t>(context.umask));
  context.niceness = ::getpriority(PRIO_PROCESS, 0);
  context.executable = own_executable().string();
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);

  auto invocation = parse_command_line({argv + 1, argv + argc}, context.environment, {}, called);
  if (!invocation) return end_with(invocation.error());
  for (const auto& line : invocation->notes) print_own_line(line, invocation->spec.output.color);
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
  auto code = run(std::move(invocation->spec), context);
  return code ? *code : end_with(code.error());
}

int main(int argc, char** argv) {
  open_standard_streams();
  common::report_uncaught(kExitLauncher);
  take_over_signals();
  if (argc < 3 || argv[1] != kReportExitArgument) return run_words(argc, argv);
  const char* descriptor = argv[2];
  ::fcntl(std::atoi(descriptor), F_SETFD, FD_CLOEXEC);
  argv[2] = argv[0];
  const int code = run_words(argc - 2, argv + 2);
  report_exit_code(descriptor, code);
  return code;
}

}  // namespace
}  // namespace hvdrun

int main(int argc, char** argv) {
  return hvdrun::main(argc, argv);
}
