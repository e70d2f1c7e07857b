#include "commands/allocation_session.hpp"

#include "agent/process_tree.hpp"
#include "base/quote.hpp"
#include "base/spawn.hpp"
#include "commands/submit.hpp"
#include "commands/words.hpp"
#include "slurm/queue/queue_answer.hpp"
#include "slurm/queue/salloc_line.hpp"
#include "slurm/queue/slurm_command.hpp"

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

constexpr std::chrono::milliseconds kPatience{30'000};
// For salloc to withdraw its request.
constexpr std::chrono::milliseconds kWithdrawal{3'000};
// For SLURM to say how a job ended, while its hosts are cleared.
constexpr std::chrono::milliseconds kEndPatience{10'000};

// timeout(1) signals its child, and then the process group that its child is in.
constexpr std::chrono::milliseconds kSameSignal{200};

const std::vector<int> kSignals{SIGINT, SIGQUIT, SIGTERM, SIGHUP};

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
  for (const int signal : not_ignored(kSignals)) sigaddset(&set, signal);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(pause);
  const timespec time{seconds.count(), std::chrono::nanoseconds(pause - seconds).count()};
  return ::sigtimedwait(&set, nullptr, &time) < 0;
}

}  // namespace

int exec_salloc(char** command) {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) return kExitLauncher;
  // What runs over the allocation has a process group of its own. At a terminal salloc hands it the
  // keys; elsewhere a signal for our process group is ours alone to pass on.
  if (!::isatty(STDIN_FILENO)) ::setpgid(0, 0);
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
      signals_((block_signals(not_ignored(kSignals)), loop_), not_ignored(kSignals),
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
      loop_, {{"scancel", job_->text}, query_environment(environment_), {}, kPatience},
      [this](const ProgramEnd&) { withdrawal_.start(kWithdrawal); });
  if (call) {
    call_ = std::move(*call);
  } else {
    ::kill(pid_, SIGKILL);
  }
}

void AllocationSession::ask() {
  auto call =
      ProgramRun::start(loop_, {squeue_for(*job_), query_environment(environment_), {}, kPatience},
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
    if (code == kExitNotFound)
      return tl::unexpected(explain_start_failure("salloc", {"", kExitNotFound}));
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
    request.patience = kPatience;
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

}  // namespace hvdrun
