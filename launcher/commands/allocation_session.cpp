#include "commands/allocation_session.hpp"

#include "agent/process_tree.hpp"
#include "base/severity.hpp"
#include "base/system.hpp"
#include "commands/subcommand.hpp"
#include "commands/submit.hpp"
#include "common/text.hpp"
#include "output/own_line.hpp"
#include "slurm/job_record.hpp"
#include "slurm/partitions.hpp"
#include "slurm/salloc_line.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kCommandTimeout{30'000};
// How long salloc may take to withdraw its request.
constexpr std::chrono::milliseconds kWithdrawal{3'000};
// How long SLURM may take to report how a job ended: it does so when the job's hosts are cleaned
// up.
constexpr std::chrono::milliseconds kEndTimeout{10'000};

// Two signals within this time are one: timeout(1) signals its child, and then the child's process
// group.
constexpr std::chrono::milliseconds kSameSignal{200};

constexpr std::chrono::milliseconds kChildPoll{50};

const std::vector<int> kSessionSignals{SIGINT, SIGQUIT, SIGTERM, SIGHUP};

// Returns the exit code that a shell gives for a wait status.
int code_of(int status) {
  return WIFSIGNALED(status) ? kExitSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

// Returns whether the terminal sends the signals of its keys to our process group, with salloc in
// it.
bool has_terminal() {
  return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

// Returns whether this is a terminal that salloc has given to what it started.
bool has_taken_terminal() {
  return ::isatty(STDIN_FILENO) != 0 && !has_terminal();
}

void signal_children(int signal) {
  for (const auto& process : all_processes())
    if (process.parent == ::getpid()) send_signal(process, signal);
}

// Returns the next of kSessionSignals that comes within `pause`; 0 if none does. They must be
// blocked.
int next_signal(std::chrono::milliseconds pause) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : not_ignored(kSessionSignals)) sigaddset(&set, signal);
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(pause);
  const timespec time{whole.count(), std::chrono::nanoseconds(pause - whole).count()};
  return std::max(::sigtimedwait(&set, nullptr, &time), 0);
}

}  // namespace

int exec_salloc(char** command) {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) return kExitLauncher;
  // What runs over the allocation has a process group of its own. At a terminal salloc makes that
  // the foreground group. Without a terminal salloc leaves our process group, so that only we pass
  // on a signal for the group.
  if (!::isatty(STDIN_FILENO)) ::setpgid(0, 0);
  ::signal(SIGXFSZ, SIG_DFL);  // which main() ignores
  ::execvp(command[0], command);
  if (errno == ENOENT) return kExitNotFound;
  std::perror("salloc: cannot be executed");
  return kExitNotExecutable;
}

void report_exit_code(const char* descriptor, int code) {
  const auto byte = static_cast<unsigned char>(code);
  static_cast<void>(::send(std::atoi(descriptor), &byte, sizeof byte, MSG_DONTWAIT | MSG_NOSIGNAL));
}

AllocationSession::AllocationSession(const Environment& environment, Fd exit_report)
    : environment_(environment),
      exit_report_(std::move(exit_report)),
      signals_((block_signals(not_ignored(kSessionSignals)), loop_), not_ignored(kSessionSignals),
               [this](int signal) { on_signal(signal); }),
      ask_timer_(loop_, [this] { ask(); }),
      withdrawal_(loop_, [this] { withdraw_by_force(); }) {
  // salloc gives the terminal to what it runs, so that we write to it from the background.
  std::signal(SIGTTOU, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
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
  errors_event_ =
      FdEvent(loop_, errors_.get(), FdEvent::readable, [this] { read_salloc_stderr(); });
  errors_event_.enable();
  loop_.run();
  return finish();
}

void AllocationSession::read_salloc_stderr() {
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
        watch_.emplace(*job_, [this](const std::string& partition) {
          return describe_partition(query_partitions(query_environment(environment_)), partition);
        });
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
      print_own_line("salloc: " + escape(said.text) + (advice.empty() ? "" : "; " + advice));
  }
}

void AllocationSession::on_granted(const std::string& job) {
  if (auto id = parse_job_id(job)) job_ = *id;
  is_granted_ = true;
  withdrawal_.cancel();
  watch_.reset();
  call_.reset();
  ask_timer_.cancel();
  print_own_line(
      exit_report_
          ? fmt::format("job {} has its allocation", job)
          : fmt::format("job {} has its allocation: in this shell, hvdrun PROGRAM uses all of "
                        "it; exit gives it back",
                        job));
}

// Passes a signal on, unless the terminal has sent it to the others as well. Ctrl-C goes to the
// terminal's whole foreground group: to salloc while the request waits, later to what runs over the
// allocation. A signal for this process only is passed on.
void AllocationSession::on_signal(int signal) {
  const bool is_key = signal == SIGINT || signal == SIGQUIT;
  if (!is_granted_) {
    const bool is_first = interrupted_ == 0;
    interrupted_ = signal;
    // Sends one signal only, because salloc withdraws the request inside its signal handler, where
    // a second signal can hang it. A key of the terminal has already signalled it.
    if (is_first && !(is_key && has_terminal())) ::kill(pid_, SIGTERM);
    if (is_first) withdrawal_.start(kWithdrawal);
    return;
  }
  if (is_key && has_terminal()) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - std::exchange(last_signal_, now) < kSameSignal) return;
  // Signals what runs over the allocation, and not salloc, so that it can end in its own time.
  // Then salloc gives the allocation back.
  for (const auto& process : all_processes())
    if (process.parent == pid_) send_signal(process, signal);
}

// Cancels the request with scancel, and then kills salloc, because salloc did not end after its
// signal.
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
  // Ignores an answer that the job runs: salloc reports that itself, later, when the hosts are
  // ready.
  if (still_waits || answer.kind == QueueAnswer::Kind::no_answer)
    for (const auto& line : watch_->take(answer, {std::time(nullptr), now})) print_own_line(line);
  ask_timer_.start(watch_->pause(now));
}

Result<int> AllocationSession::finish() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  int code = code_of(status);
  if (interrupted_ != 0) {
    print_own_line(job_ ? "job " + job_->text + ": the request is withdrawn" : "interrupted");
    return kExitSignalBase + interrupted_;
  }
  if (WIFSIGNALED(status)) return clean_up_after_salloc(WTERMSIG(status));
  if (!is_granted_) {
    if (code == kExitNotFound) return explain_start_failure("salloc", {"", kExitNotFound});
    if (!job_) return kExitUsage;  // refused; salloc printed why
    const auto how = how_it_was_lost(code);
    print_own_line(error_text(how));
    return code == kExitOk ? kExitLauncher : code;
  }
  if (is_lost_) {
    print_own_line(error_text("the allocation was lost: " + how_it_was_lost(code)));
  } else if (code == kExitOk && exit_report_ && !exit_was_reported()) {
    print_own_line(error_text(
        "the hvdrun that ran over the allocation was killed before its job had ended; was this "
        "host out of memory?"));
    code = kExitLauncher;
  }
  return code;
}

// Ends what ran over the allocation, and gives the allocation back. A signal of the user while we
// wait is passed on.
Result<int> AllocationSession::clean_up_after_salloc(int signal) {
  print_own_line(error_text(fmt::format("salloc was killed by {}{}", signal_name(signal),
                                        job_ ? "; its job " + job_->text + " is ended" : "")));
  // A program ends in its own time, on hosts that it still has. A shell may be srun, which ends
  // with the allocation; interactive shells ignore SIGTERM but end on SIGHUP.
  const bool is_program = static_cast<bool>(exit_report_);
  signal_children(is_program ? SIGTERM : SIGHUP);
  if (!is_program) cancel_job();
  while (::waitpid(-1, nullptr, WNOHANG) >= 0)
    if (const int asked = next_signal(kChildPoll); asked != 0) signal_children(asked);
  // Not before, because a program in the background that uses the terminal is stopped.
  if (has_taken_terminal()) ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
  if (is_program) cancel_job();
  return kExitLauncher;
}

void AllocationSession::cancel_job() const {
  if (!job_) return;
  ProgramRequest request;
  request.command = {"scancel", job_->text};
  request.environment = query_environment(environment_);
  request.timeout = kCommandTimeout;
  const auto end = run_slurm(std::move(request));
  if (!end || end->code != 0)
    print_own_line(warning_text(fmt::format(
        "job {} could not be cancelled ({}) and may still have its hosts; hvdrun cancel "
        "{}",
        job_->text, end ? complaint(*end) : end.error().message, job_->text)));
}

bool AllocationSession::exit_was_reported() const {
  unsigned char code = 0;
  return ::recv(exit_report_.get(), &code, sizeof code, MSG_DONTWAIT) == sizeof code;
}

// Returns how the allocation was lost, and sets the exit code for it. Asks SLURM until it reports
// the job's end, which it does when the job's hosts are cleaned up. Blocks, at most for
// kEndTimeout and one answer, or until a signal.
std::string AllocationSession::how_it_was_lost(int& code) {
  using Clock = std::chrono::steady_clock;
  JobWatch watch(*job_);
  for (const auto begin = Clock::now(); Clock::now() - begin < kEndTimeout;) {
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
    if (next_signal(watch.pause(now)) != 0) break;  // the user does not want to wait
  }
  return "job " + job_->text + " was ended, and SLURM does not say why";
}

}  // namespace hvdrun
