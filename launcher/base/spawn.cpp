#include "base/spawn.hpp"

#include "base/fd.hpp"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

extern char** environ;  // NOLINT: environ(7)

namespace hvdrun {
namespace {

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
  explicit SpawnPlan(SpawnSession session) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    // No signal blocked, none ignored but SIGPIPE's default restored.
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
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

}  // namespace

Result<pid_t> spawn(const std::vector<std::string>& command, const SpawnStreams& streams,
                    const std::optional<std::vector<std::string>>& environment,
                    SpawnSession session) {
  SpawnPlan plan(session);
  plan.give(streams.in, STDIN_FILENO);
  plan.give(streams.out, STDOUT_FILENO);
  // Whichever of ours has that number is not to be overwritten before it is given.
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

}  // namespace hvdrun
