#include "base/subprocess.hpp"

#include "base/system.hpp"
#include "common/fd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT: environ(7)

namespace hvdrun {
namespace {

// How often to check the end of a program that has closed its streams and so is about to end.
constexpr std::chrono::milliseconds kEndCheck{5};

// In bytes. 10,000 jobs of squeue are 5 MB.
constexpr std::size_t kMostOutput = 256u << 20;

// Returns the array that execve(2) takes. It is valid while `words` is unchanged.
std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const auto& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Does what pidfd_open(2) does with a thread, for kernels before Linux 5.3 and for seccomp filters
// that refuse the call: it waits for the child and then closes the pipe whose other end it returns.
Result<Fd> watch_by_thread(pid_t child) {
  HVD_TRY(Pipe pipe, make_pipe());
  // Shared, because a std::function is copied.
  const auto end = std::make_shared<Fd>(std::move(pipe.write));
  HVD_TRY(std::thread thread, start_thread("waits for a process", [child, end] {
            siginfo_t ended{};
            while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) != 0 &&
                   errno == EINTR) {
            }
          }));
  thread.detach();
  return std::move(pipe.read);
}

// Owns posix_spawn's two structures.
class SpawnPlan {
 public:
  explicit SpawnPlan(SpawnSession session) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    // Blocks no signal, and restores the defaults of those that only hvdrun ignores.
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (session == SpawnSession::own) flags |= POSIX_SPAWN_SETSID;
    posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void give(int descriptor, int as) {
    if (descriptor >= 0) posix_spawn_file_actions_adddup2(&actions_, descriptor, as);
  }

  int start(const std::vector<std::string>& command, char* const* environment, pid_t& pid) {
    const auto words = pointers_to(command);
    return ::posix_spawnp(&pid, words.front(), &actions_, &attributes_, words.data(), environment);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// Returns the exit code that a shell gives for a wait status.
int code_of(int status) {
  return WIFSIGNALED(status) ? kExitSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<pid_t> spawn(const std::vector<std::string>& command, const SpawnStreams& streams,
                    const std::optional<std::vector<std::string>>& environment,
                    SpawnSession session) {
  SpawnPlan plan(session);
  plan.give(streams.in, STDIN_FILENO);
  plan.give(streams.out, STDOUT_FILENO);
  // Moves our descriptor of that number, which otherwise would be overwritten before it is given.
  Fd moved;
  int err = streams.err;
  if (streams.other >= 0 && err == kOtherDescriptor) {
    moved.reset(::fcntl(err, F_DUPFD_CLOEXEC, kOtherDescriptor + 1));
    err = moved.get();
  }
  plan.give(streams.other, kOtherDescriptor);
  plan.give(err, STDERR_FILENO);
  std::vector<char*> block;
  if (environment) block = pointers_to(*environment);
  pid_t pid = 0;
  if (const int error = plan.start(command, environment ? block.data() : environ, pid); error != 0)
    return fail_errno("cannot start " + command.front(), error,
                      error == ENOENT ? kExitNotFound : kExitLauncher);
  return pid;
}

Result<Fd> watch_child(pid_t child) {
  Fd watched(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (watched) return watched;
  return watch_by_thread(child);
}

std::optional<int> wait_for_child(pid_t child, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::optional<Result<Fd>> watched;
  while (true) {
    int status = 0;
    const pid_t reaped = ::waitpid(child, &status, WNOHANG);
    if (reaped == child) return status;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if ((reaped < 0 && errno != EINTR) || left.count() <= 0) return std::nullopt;
    if (!watched) watched = watch_child(child);
    const bool is_watched = watched->ok();
    pollfd end{is_watched ? (*watched)->get() : -1, POLLIN, 0};  // poll(2) leaves out -1
    ::poll(&end, 1, static_cast<int>((is_watched ? left : std::min(left, kEndCheck)).count()));
  }
}

ProgramRun::ProgramRun(const EventLoop& loop, std::string input,
                       std::function<void(ProgramEnd)> done)
    : input_(std::move(input)),
      done_(std::move(done)),
      timeout_(loop,
               [this] {
                 end_.timed_out = true;
                 ::kill(pid_, SIGKILL);
                 // Closes the streams, which another process may hold open.
                 for (Source* source : {&in_, &out_, &err_}) source->close();
                 look_for_end();
               }),
      end_check_(loop, [this] { look_for_end(); }) {}

ProgramRun::~ProgramRun() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  wait_for_child(pid_, kKilledTimeout);
}

Result<std::unique_ptr<ProgramRun>> ProgramRun::start(const EventLoop& loop, ProgramRequest request,
                                                      std::function<void(ProgramEnd)> done) {
  std::unique_ptr<ProgramRun> run(new ProgramRun(loop, std::move(request.input), std::move(done)));
  HVD_TRY(Pipe in, make_pipe());
  HVD_TRY(Pipe out, make_pipe());
  HVD_TRY(Pipe err, make_pipe());
  HVD_TRY(run->pid_, spawn(request.command, {in.read.get(), out.write.get(), err.write.get()},
                           request.environment));
  HVD_CHECK(run->watch(loop, std::move(in), std::move(out), std::move(err)));
  run->timeout_.start(request.timeout);
  return run;
}

Result<void> ProgramRun::watch(const EventLoop& loop, Pipe in, Pipe out, Pipe err) {
  in_.fd = std::move(in.write);
  out_.fd = std::move(out.read);
  err_.fd = std::move(err.read);
  for (const Source* source : {&in_, &out_, &err_}) HVD_CHECK(set_nonblocking(source->fd.get()));
  in_.event = FdEvent(loop, in_.fd.get(), FdEvent::writable, [this] { write_input(); });
  out_.event =
      FdEvent(loop, out_.fd.get(), FdEvent::readable, [this] { read_from(out_, end_.out); });
  err_.event =
      FdEvent(loop, err_.fd.get(), FdEvent::readable, [this] { read_from(err_, end_.err); });
  for (Source* source : {&in_, &out_, &err_}) source->event.enable();
  return {};
}

// Removes the event first: the loop must not watch a closed descriptor, whose number may be used
// again.
void ProgramRun::Source::close() {
  event.reset();
  fd.reset();
}

void ProgramRun::write_input() {
  const ssize_t count = input_.size() == written_ ? 0
                                                  : ::write(in_.fd.get(), input_.data() + written_,
                                                            input_.size() - written_);
  if (count < 0 && (errno == EAGAIN || errno == EINTR || is_short_of_memory(errno))) return;
  if (count > 0) written_ += static_cast<std::size_t>(count);
  if (count > 0 && written_ < input_.size()) return;
  in_.close();  // all is written, or the program reads no more
}

void ProgramRun::read_from(Source& source, std::string& text) {
  std::array<char, 65536> bytes;  // NOLINT: filled by read
  const ssize_t count = ::read(source.fd.get(), bytes.data(), bytes.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count > 0) {
    if (text.size() < kMostOutput) text.append(bytes.data(), static_cast<std::size_t>(count));
    return;
  }
  source.close();
  if (!out_.fd && !err_.fd) look_for_end();
}

void ProgramRun::look_for_end() {
  int status = 0;
  const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
  if (reaped == 0 || (reaped < 0 && errno == EINTR)) {
    end_check_.start(kEndCheck);
    return;
  }
  pid_ = 0;
  timeout_.cancel();
  end_.code = code_of(status);
  const auto done = std::move(done_);
  done(std::move(end_));
}

Result<ProgramEnd> run_program(ProgramRequest request) {
  EventLoop loop;
  ProgramEnd end;
  HVD_TRY(const auto run, ProgramRun::start(loop, std::move(request), [&](ProgramEnd all) {
            end = std::move(all);
            loop.stop();
          }));
  loop.run();
  return end;
}

}  // namespace hvdrun
