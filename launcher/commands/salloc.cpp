#include "commands/salloc.hpp"

#include "agent/process_tree.hpp"
#include "base/subprocess.hpp"
#include "base/system.hpp"
#include "commands/sbatch.hpp"
#include "commands/subcommand.hpp"
#include "common/text.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_record.hpp"
#include "slurm/salloc_line.hpp"
#include "slurm/slurm_command.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kCommandTimeout{30'000};
// For salloc to withdraw its request.
constexpr std::chrono::milliseconds kWithdrawal{3'000};
// For SLURM to say how a job ended, while its hosts are cleared.
constexpr std::chrono::milliseconds kEndPatience{10'000};

// timeout(1) signals its child, and then the process group that its child is in.
constexpr std::chrono::milliseconds kSameSignal{200};

const std::vector<int> kSessionSignals{SIGINT, SIGQUIT, SIGTERM, SIGHUP};

// The wait status as a shell's code.
int code_of(int status) {
  return WIFSIGNALED(status) ? kExitSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

// The terminal's keys are for our process group, salloc among it.
bool has_terminal() {
  return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

// False: the user does not want to wait. The signals are blocked.
bool wait_for(std::chrono::milliseconds pause) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : not_ignored(kSessionSignals)) sigaddset(&set, signal);
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(pause);
  const timespec time{whole.count(), std::chrono::nanoseconds(pause - whole).count()};
  return ::sigtimedwait(&set, nullptr, &time) < 0;
}

// What a site's salloc without a command opens its shell with: on the allocation's first host
// (slurm.conf(5), LaunchParameters=use_interactive_step). Empty: a shell here.
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

// A line for sh(1) that becomes what is to run. salloc's own stderr is a pipe of ours: what it runs
// gets the user's back.
std::vector<std::string> shell_words(const std::string& what) {
  const auto number = std::to_string(kOtherDescriptor);
  return {"sh", "-c", "exec " + what + " 2>&" + number + " " + number + ">&-", "sh"};
}

// `tell`: see kTellArgument.
std::vector<std::string> command_over_it(const BatchInvocation& invocation, const BatchShape& shape,
                                         const Environment& environment, const Fd& tell) {
  if (!invocation.command.empty()) {
    auto command = inner_command(invocation, shape, environment);
    command.hvdrun.insert(command.hvdrun.begin() + 1,
                          {std::string(kTellArgument), std::to_string(tell.get())});
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
                                      bool has_program) {
  std::vector<std::string> words{"salloc"};
  for (auto& request : slurm_requests(batch, shape)) words.push_back(std::move(request.text));
  // A lost allocation ends what runs over it; a shell takes a hangup for the end.
  words.emplace_back(has_program ? "--kill-command=TERM" : "--kill-command=HUP");
  return words;
}

// A socket pair for hvdrun and the one that runs over the allocation, which inherits the second.
Result<std::pair<Fd, Fd>> make_tell_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail_errno("cannot make a socket pair", errno);
  std::pair pair{Fd(ends[0]), Fd(ends[1])};
  // A shell between us can close what has a number of one digit.
  const Fd low = std::move(pair.second);
  pair.second.reset(::fcntl(low.get(), F_DUPFD, 10));
  if (!pair.second) return fail_errno("cannot make a socket pair", errno);
  return pair;
}

Result<void> check_outside_of_jobs(const Environment& environment) {
  if (const auto* job = find_variable(environment, "SLURM_JOB_ID"); job != nullptr)
    return fail("this is inside SLURM job " + *job + " already: hvdrun -np N program uses it",
                kExitUsage);
  return {};
}

}  // namespace

int exec_salloc(char** command) {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) return kExitLauncher;
  // What runs over the allocation has a process group of its own. At a terminal salloc hands it the
  // keys; elsewhere a signal for our process group is ours alone to pass on.
  if (!::isatty(STDIN_FILENO)) ::setpgid(0, 0);
  ::signal(SIGXFSZ, SIG_DFL);  // which main() ignores
  ::execvp(command[0], command);
  if (errno == ENOENT) return kExitNotFound;
  std::perror("salloc: cannot be executed");
  return kExitNotExecutable;
}

void tell_exit_code(const char* descriptor, int code) {
  const auto byte = static_cast<unsigned char>(code);
  static_cast<void>(::send(std::atoi(descriptor), &byte, sizeof byte, MSG_DONTWAIT | MSG_NOSIGNAL));
}

AllocationSession::AllocationSession(const Environment& environment, Fd tell)
    : environment_(environment),
      tell_(std::move(tell)),
      signals_((block_signals(not_ignored(kSessionSignals)), loop_), not_ignored(kSessionSignals),
               [this](int signal) { on_signal(signal); }),
      ask_timer_(loop_, [this] { ask(); }),
      withdrawal_(loop_, [this] { withdraw_by_force(); }) {
  // salloc gives the terminal to what it runs: we write to it from the background.
  std::signal(SIGTTOU, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

Result<int> AllocationSession::run(const std::vector<std::string>& salloc) {
  HVD_TRY(Pipe pipe, make_pipe());
  HVD_CHECK(set_nonblocking(pipe.read.get()));
  SpawnStreams streams;
  streams.err = pipe.write.get();
  streams.other = STDERR_FILENO;
  std::vector<std::string> words{"/proc/self/exe", std::string(kSallocArgument)};
  words.insert(words.end(), salloc.begin(), salloc.end());
  HVD_TRY(pid_, spawn(words, streams, environment_block(environment_), SpawnSession::ours));
  pipe.write.reset();
  errors_ = std::move(pipe.read);
  errors_event_ = FdEvent(loop_, errors_.get(), FdEvent::readable, [this] { on_salloc_says(); });
  errors_event_.enable();
  loop_.run();
  return finish();
}

void AllocationSession::on_salloc_says() {
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(errors_.get(), buffer.data(), buffer.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    if (!line_.empty()) on_line(std::exchange(line_, {}));
    return loop_.stop();
  }
  line_.append(buffer.data(), static_cast<std::size_t>(count));
  for (auto end = line_.find('\n'); end != std::string::npos; end = line_.find('\n')) {
    const auto line = line_.substr(0, end);
    line_.erase(0, end + 1);
    on_line(line);
  }
}

void AllocationSession::on_line(std::string_view line) {
  const auto said = read_salloc_line(line);
  switch (said.kind) {
    case SallocLine::Kind::pending:
      if (auto id = parse_job_id(said.text); id && !job_) {
        job_ = *id;
        watch_.emplace(*job_);
        ask();
      }
      break;
    case SallocLine::Kind::granted:
      on_granted(said.text);
      break;
    case SallocLine::Kind::given_back:
      is_given_back_ = true;
      break;
    case SallocLine::Kind::revoked:
      is_lost_ = is_lost_ || !is_given_back_;
      break;
    case SallocLine::Kind::routine:
      break;
    case SallocLine::Kind::other:
      if (said.text.empty()) break;
      const auto advice = is_granted_ ? std::string() : advice_on(said.text);
      say_note("salloc: " + escape(said.text) + (advice.empty() ? "" : "; " + advice));
  }
}

void AllocationSession::on_granted(const std::string& job) {
  if (auto id = parse_job_id(job)) job_ = *id;
  is_granted_ = true;
  withdrawal_.cancel();
  watch_.reset();
  call_.reset();
  ask_timer_.cancel();
  say_note(tell_
               ? fmt::format("job {} has its allocation", job)
               : fmt::format("job {} has its allocation: in this shell, hvdrun PROGRAM uses all of "
                             "it; exit gives it back",
                             job));
}

// Ctrl-C comes to all of the terminal's foreground: to salloc too while the request waits, and
// later to what runs. A signal that came to us alone is salloc's to hear.
void AllocationSession::on_signal(int signal) {
  const bool is_key = signal == SIGINT || signal == SIGQUIT;
  if (!is_granted_) {
    const bool is_first = interrupted_ == 0;
    interrupted_ = signal;
    // salloc withdraws the request inside its signal handler, where a second signal can hang it. A
    // key of the terminal has come to it already.
    if (is_first && !(is_key && has_terminal())) ::kill(pid_, SIGTERM);
    if (is_first) withdrawal_.start(kWithdrawal);
    return;
  }
  if (is_key && has_terminal()) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - std::exchange(passed_on_, now) < kSameSignal) return;
  // What runs is to end in its own time; then salloc gives the allocation back.
  for (const auto& process : all_processes())
    if (process.parent == pid_) send_signal(process, signal);
}

// salloc has not ended upon its signal.
void AllocationSession::withdraw_by_force() {
  if (!job_ || is_cancelled_) {
    ::kill(pid_, SIGKILL);
    return;
  }
  is_cancelled_ = true;
  auto call = ProgramRun::start(
      loop_, {{"scancel", job_->text}, query_environment(environment_), {}, kCommandTimeout},
      [this](const ProgramEnd&) { withdrawal_.start(kWithdrawal); });
  if (call) {
    call_ = std::move(*call);
  } else {
    ::kill(pid_, SIGKILL);
  }
}

void AllocationSession::ask() {
  auto call = ProgramRun::start(
      loop_, {squeue_for(*job_), query_environment(environment_), {}, kCommandTimeout},
      [this](const ProgramEnd& end) { take_answer(end); });
  if (call) call_ = std::move(*call);
}

void AllocationSession::take_answer(const ProgramEnd& end) {
  if (!watch_ || interrupted_ != 0) return;
  const auto now = std::chrono::steady_clock::now();
  const auto answer = read_answer(end);
  const bool still_waits = !answer.jobs.empty() && answer.jobs.front().state == "PENDING";
  // That it runs salloc says, with more to come before anything does.
  if (still_waits || answer.kind == QueueAnswer::Kind::no_answer)
    for (const auto& line : watch_->take(answer, {std::time(nullptr), now})) say_note(line);
  ask_timer_.start(watch_->pause(now));
}

Result<int> AllocationSession::finish() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  int code = code_of(status);
  if (interrupted_ != 0) {
    say_note(job_ ? "job " + job_->text + ": the request is withdrawn" : "interrupted");
    return kExitSignalBase + interrupted_;
  }
  if (!is_granted_) {
    if (code == kExitNotFound) return explain_start_failure("salloc", {"", kExitNotFound});
    if (!job_) return kExitUsage;  // refused: salloc has said why
    const auto how = how_it_was_lost(code);
    say_note(how);
    return code == kExitOk ? kExitLauncher : code;
  }
  if (is_lost_) {
    say_note("the allocation was lost: " + how_it_was_lost(code));
  } else if (code == kExitOk && tell_ && !was_told()) {
    say_note(
        "the hvdrun that ran over the allocation was killed before its job had ended; was this "
        "host out of memory?");
    code = kExitLauncher;
  }
  return code;
}

bool AllocationSession::was_told() const {
  unsigned char code = 0;
  return ::recv(tell_.get(), &code, sizeof code, MSG_DONTWAIT) == sizeof code;
}

// In SLURM's words, and the exit code for it. SLURM says how a job ended when its hosts are
// cleared.
std::string AllocationSession::how_it_was_lost(int& code) {
  using Clock = std::chrono::steady_clock;
  JobWatch watch(*job_);
  for (const auto begin = Clock::now(); Clock::now() - begin < kEndPatience;) {
    ProgramRequest request;
    request.command = squeue_for(*job_);
    request.environment = query_environment(environment_);
    request.timeout = kCommandTimeout;
    const auto answered = run_slurm(std::move(request));
    if (!answered) break;
    const auto now = Clock::now();
    watch.take(read_answer(*answered), {std::time(nullptr), now});
    if (watch.wants_accounting()) watch.take_accounting({});
    if (watch.end()) {
      code = watch.end()->exit_code;
      return watch.end()->text;
    }
    if (!wait_for(watch.pause(now))) break;
  }
  return "job " + job_->text + " was ended, and SLURM does not say why";
}

Result<int> run_salloc(const std::vector<std::string>& args, const Environment& environment) {
  const auto find_defaults = [&](const BatchSpec& batch) -> Result<std::vector<DefaultSetting>> {
    if (batch.template_name.empty()) return std::vector<DefaultSetting>();
    HVD_TRY(const auto script, find_template(batch.template_name, batch, environment));
    return defaults_of(script);
  };
  HVD_TRY(auto invocation, parse_batch_command_line("salloc", args, environment, find_defaults));
  for (const auto& line : invocation.notes) say_note(line);
  if (invocation.action != BatchInvocation::Action::run) return print_text(invocation.text);
  auto& batch = invocation.batch;
  HVD_CHECK(check_outside_of_jobs(environment));
  const bool has_program = !invocation.command.empty();
  complete_request(batch, has_program ? invocation.command : std::vector<std::string>{"shell"});
  const auto offer = ask_for_nodes(batch, environment);
  HVD_TRY(const auto shape, batch_shape(invocation.job, batch));
  HVD_CHECK(check_nodes(shape, offer));
  say_note(describe(shape));
  Fd ours;
  Fd theirs;
  if (has_program) {
    HVD_TRY(std::tie(ours, theirs), make_tell_pair());
  }
  auto words = salloc_words(batch, shape, has_program);
  for (auto& word : command_over_it(invocation, shape, environment, theirs))
    words.push_back(std::move(word));
  return AllocationSession(environment, std::move(ours)).run(words);
}

}  // namespace hvdrun
