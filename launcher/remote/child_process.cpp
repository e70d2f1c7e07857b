#include "remote/child_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT: environ(7)

namespace hvdrun {
namespace {

constexpr std::size_t kMostOutput = 1u << 20;

// What execve(2) takes; valid as long as `words` is.
std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const auto& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// posix_spawn's two structures, freed.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    // A new session, no signal blocked, none ignored but SIGPIPE's default restored.
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void give(int descriptor, int as) { posix_spawn_file_actions_adddup2(&actions_, descriptor, as); }

  int start(const std::vector<std::string>& command, char* const* environment, pid_t& pid) {
    const auto words = pointers_to(command);
    return ::posix_spawnp(&pid, words.front(), &actions_, &attributes_, words.data(), environment);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

Result<ChildProcess> start_child(const std::vector<std::string>& command,
                                 const ChildOptions& options) {
  Pipe input;
  Pipe output;
  HVD_TRY(Pipe errors, make_pipe());
  if (options.stream < 0) {
    HVD_TRY(input, make_pipe());
    if (!options.errors_only) {
      HVD_TRY(output, make_pipe());
    }
  }
  SpawnPlan plan;
  if (options.stream >= 0) {
    plan.give(options.stream, STDIN_FILENO);
    plan.give(options.stream, STDOUT_FILENO);
  } else {
    plan.give(input.read.get(), STDIN_FILENO);
    plan.give((options.errors_only ? errors.write : output.write).get(), STDOUT_FILENO);
  }
  plan.give(errors.write.get(), STDERR_FILENO);
  std::vector<char*> environment;
  if (options.environment) environment = pointers_to(*options.environment);
  ChildProcess process;
  if (const int error =
          plan.start(command, options.environment ? environment.data() : environ, process.pid);
      error != 0)
    return fail_errno("cannot start " + command.front(), error, kExitUsage);
  process.link = {std::move(output.read), std::move(input.write)};
  process.errors = std::move(errors.read);
  for (const int fd : {process.link.in.get(), process.link.out.get(), process.errors.get()})
    if (fd >= 0) HVD_CHECK(set_nonblocking(fd));
  return process;
}

Result<std::string> output_of(const std::vector<std::string>& command,
                              std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  HVD_TRY(ChildProcess child, start_child(command));
  child.link.out.reset();
  std::string text;
  bool whole = false;
  while (!whole && text.size() < kMostOutput) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waiting{child.link.in.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0) break;
    std::array<char, 4096> bytes;  // NOLINT: filled by read
    const ssize_t got = ::read(child.link.in.get(), bytes.data(), bytes.size());
    if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
    whole = got == 0;
  }
  if (!whole) {
    ::kill(child.pid, SIGKILL);
    text.clear();
  }
  while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

void run_children(const std::vector<std::vector<std::string>>& commands,
                  std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::vector<ChildProcess> running;
  for (const auto& command : commands) {
    auto child = start_child(command, {std::nullopt, true});
    if (!child) continue;
    child->link = {};
    running.push_back(std::move(*child));
  }
  for (auto& child : running) {
    // Its stderr closes when it ends, unless it has left somebody behind.
    pollfd waiting{child.errors.get(), POLLIN, 0};
    std::array<char, 4096> ignored;  // NOLINT: filled by read
    const auto left = [&] {
      return std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
    };
    while (left().count() > 0) {
      if (::poll(&waiting, 1, static_cast<int>(left().count())) <= 0) continue;
      if (::read(child.errors.get(), ignored.data(), ignored.size()) == 0) break;
    }
    if (left().count() <= 0) ::kill(child.pid, SIGKILL);
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace hvdrun
