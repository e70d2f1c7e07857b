#include "agent/spawn.hpp"

#include "base/system.hpp"
#include "common/fd.hpp"
#include "common/file_content.hpp"
#include "common/shell_words.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <system_error>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// From linux/mempolicy.h: allocates on these nodes while they have room, then elsewhere. Since
// Linux 5.15.
constexpr int kPreferredMany = 5;
// For older kernels: prefers one node only.
constexpr int kPreferred = 1;

using BitMask = std::vector<unsigned long>;
constexpr int kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;

BitMask to_mask(const std::vector<int>& numbers) {
  if (numbers.empty()) return {};
  const int highest = *std::max_element(numbers.begin(), numbers.end());
  BitMask mask(static_cast<std::size_t>(highest / kBitsPerWord + 1));
  for (const int number : numbers)
    mask[static_cast<std::size_t>(number / kBitsPerWord)] |= 1ul << (number % kBitsPerWord);
  return mask;
}

std::vector<char*> to_pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 2);
  for (const auto& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Everything that the child needs, made before the child exists: between vfork and exec it shares
// our memory and may only make system calls.
struct Prepared {
  const char* program;
  std::vector<char*> arguments;
  std::vector<char*> shell_arguments;  // for a script without "#!", as execvp(3) does
  std::vector<char*> environment;
  BitMask cpus;
  BitMask nodes;
  const SpawnRequest* request;
  const std::vector<int>* changed_signals;
  pid_t parent;
  int failure = -1;  // a pipe that exec closes; gets errno if exec fails
};

void set_memory_policy(const BitMask& nodes) {
  if (nodes.empty()) return;
  const auto bits = nodes.size() * kBitsPerWord + 1;
  if (::syscall(SYS_set_mempolicy, kPreferredMany, nodes.data(), bits) == 0) return;
  ::syscall(SYS_set_mempolicy, kPreferred, nodes.data(), bits);  // without a policy if it fails
}

// Returns the signals whose action in this process is not the default one.
std::vector<int> changed_signals() {
  std::vector<int> changed;
  struct sigaction action {};
  for (int signal = 1; signal < NSIG; ++signal)
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_DFL)
      changed.push_back(signal);
  return changed;
}

void reset_signals(const std::vector<int>& changed) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;  // NOLINT: a union, by POSIX
  for (const int signal : changed) ::sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Reports errno to the parent, and exits.
[[noreturn]] void give_up(const Prepared& prepared) {
  const int error = errno;
  [[maybe_unused]] const auto put = ::write(prepared.failure, &error, sizeof error);
  ::_exit(kExitNotExecutable);
}

// Sets up this child and executes the program. Makes only async-signal-safe calls
// (signal-safety(7)).
[[noreturn]] void become_rank(Prepared& prepared) {
  const SpawnRequest& request = *prepared.request;
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != prepared.parent) ::_exit(kExitLauncher);  // the parent died before prctl
#ifdef PR_SET_PTRACER
  // Where Yama restricts ptrace(2), lets what the agent starts look at this process. Only this one:
  // the children of a rank do not have that permission.
  ::prctl(PR_SET_PTRACER, prepared.parent, 0, 0, 0);
#endif
  if (!prepared.cpus.empty())
    ::syscall(SYS_sched_setaffinity, 0, prepared.cpus.size() * sizeof(unsigned long),
              prepared.cpus.data());
  set_memory_policy(prepared.nodes);
  if (::dup2(request.input, STDIN_FILENO) < 0 || ::dup2(request.output, STDOUT_FILENO) < 0 ||
      ::dup2(request.error, STDERR_FILENO) < 0)
    give_up(prepared);
  if (request.has_terminal) ::ioctl(STDIN_FILENO, TIOCSCTTY, 0);
  if (request.inherited >= 0) ::fcntl(request.inherited, F_SETFD, 0);
  for (const auto& limit : request.limits) set_limit(limit);
  reset_signals(*prepared.changed_signals);
  ::execve(prepared.program, prepared.arguments.data(), prepared.environment.data());
  if (errno == ENOEXEC)
    ::execve("/bin/sh", prepared.shell_arguments.data(), prepared.environment.data());
  give_up(prepared);
}

#ifdef __SANITIZE_THREAD__
constexpr bool kVforkWaits = false;  // the thread sanitizer replaces vfork by fork
#else
constexpr bool kVforkWaits = true;  // until the child has called exec or has ended
#endif

// Calls vfork() and returns in the parent only. The child must not return from the function that
// called vfork(), nor change its locals, so vfork() has a frame of its own.
[[gnu::noinline]] pid_t start(Prepared& prepared) {
  const pid_t pid = ::vfork();  // NOLINT: fork copies page tables, posix_spawn lacks setsid + mask
  if (pid == 0) become_rank(prepared);
  return pid;
}

// The kernel reads no more of a script's first line.
constexpr std::size_t kLongestFirstLine = 256;

// Returns "/usr/bin/pyton3" for a program that begins with "#!/usr/bin/pyton3"; empty without such
// a line.
std::string interpreter_of(const std::string& program) {
  const auto start = content_of(program, kLongestFirstLine);
  const auto line = start.substr(0, start.find('\n'));
  if (!line.starts_with("#!")) return {};
  const auto begin = line.find_first_not_of(" \t", 2);
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_first_of(" \t", begin) - begin);
}

Error exec_error(const std::string& program, int error) {
  if (error == ENOENT) {
    const auto interpreter = interpreter_of(program);
    if (interpreter.ends_with('\r'))
      return fail(program +
                      " has Windows line ends (a carriage return ends its first line): sed -i "
                      "'s/\\r$//' " +
                      quote_for_shell(program),
                  kExitNotExecutable);
    if (!interpreter.empty())
      return fail(program + ": its first line asks for the interpreter " + interpreter +
                      ", which is not there",
                  kExitNotFound);
    return fail_errno("cannot run " + program, error, kExitNotFound);
  }
  if (error == E2BIG)
    return fail("cannot run " + program +
                    ": arguments and environment are larger than the system allows; see "
                    "`getconf ARG_MAX`, and 128 KB for one variable",
                kExitNotExecutable);
  return fail_errno("cannot run " + program, error, kExitNotExecutable);
}

Result<pid_t> spawn_resetting(const SpawnRequest& request, const std::vector<int>& signals) {
  Prepared prepared{};
  prepared.program = request.program.c_str();
  prepared.arguments = to_pointers(request.arguments);
  prepared.shell_arguments = prepared.arguments;
  prepared.shell_arguments[0] = const_cast<char*>(prepared.program);
  prepared.shell_arguments.insert(prepared.shell_arguments.begin(), const_cast<char*>("sh"));
  prepared.environment = to_pointers(request.environment);
  prepared.cpus = to_mask(request.cpus);
  prepared.nodes = to_mask(request.numa_nodes);
  prepared.request = &request;
  prepared.changed_signals = &signals;
  prepared.parent = ::getpid();
  // The child reports a failed exec by a pipe, because memory is shared only if vfork is no fork.
  // The report is in the pipe when vfork returns, so the read does not wait. A wait for end of file
  // would also wait for children that other threads start now: they hold the pipe until they exec.
  HVD_TRY(Pipe failure, make_pipe());
  if (kVforkWaits) HVD_CHECK(set_nonblocking(failure.read.get()));
  prepared.failure = failure.write.get();
  const pid_t pid = start(prepared);
  if (pid < 0) return fail_errno("cannot start a process for " + request.program, errno);
  failure.write.reset();
  int error = 0;
  if (::read(failure.read.get(), &error, sizeof error) != sizeof error) return pid;
  ::waitpid(pid, nullptr, 0);
  return exec_error(request.program, error);
}

// There may be more threads than cores, because each mostly waits for its child's exec.
constexpr std::size_t kThreads = 4;

}  // namespace

Result<pid_t> spawn(const SpawnRequest& request) {
  return spawn_resetting(request, changed_signals());
}

SpawnPool::~SpawnPool() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

std::vector<Result<pid_t>> SpawnPool::spawn_all(const std::vector<SpawnRequest>& requests) {
  std::vector<Result<pid_t>> results(requests.size(), Result<pid_t>(0));
  Batch batch{&requests, &results, changed_signals()};
  const auto wanted = std::min(kThreads, requests.size());
  try {
    while (threads_.size() + 1 < wanted) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // A limit on processes includes threads. The caller's own thread is enough.
  }
  {
    const std::lock_guard lock(mutex_);
    batch_ = &batch;
    busy_ = threads_.size();
    ++generation_;
  }
  changed_.notify_all();
  take_all(batch);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return busy_ == 0; });
  batch_ = nullptr;
  return results;
}

void SpawnPool::work() {
  std::size_t done = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return leaving_ || (batch_ != nullptr && generation_ != done); });
    if (leaving_) return;
    done = generation_;
    Batch& batch = *batch_;
    lock.unlock();
    take_all(batch);
    lock.lock();
    if (--busy_ == 0) changed_.notify_all();
  }
}

void SpawnPool::take_all(Batch& batch) {
  for (auto at = batch.next++; at < batch.requests->size(); at = batch.next++)
    (*batch.results)[at] = spawn_resetting((*batch.requests)[at], batch.changed_signals);
}

}  // namespace hvdrun
