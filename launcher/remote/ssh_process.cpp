#include "remote/ssh_process.hpp"

#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

extern char** environ;  // NOLINT: environ(7)

namespace hvdrun {
namespace {

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

  void give(const Fd& descriptor, int as) {
    posix_spawn_file_actions_adddup2(&actions_, descriptor.get(), as);
  }

  int start(const std::vector<std::string>& command, pid_t& pid) {
    std::vector<char*> words;
    for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    return ::posix_spawnp(&pid, words.front(), &actions_, &attributes_, words.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

Result<SshProcess> start_ssh(const std::vector<std::string>& command) {
  HVD_TRY(Pipe input, make_pipe());
  HVD_TRY(Pipe output, make_pipe());
  HVD_TRY(Pipe errors, make_pipe());
  SpawnPlan plan;
  plan.give(input.read, STDIN_FILENO);
  plan.give(output.write, STDOUT_FILENO);
  plan.give(errors.write, STDERR_FILENO);
  SshProcess process;
  if (const int error = plan.start(command, process.pid); error != 0)
    return fail_errno("cannot start " + command.front(), error, kExitUsage);
  process.link = {std::move(output.read), std::move(input.write)};
  process.errors = std::move(errors.read);
  for (const int fd : {process.link.in.get(), process.link.out.get(), process.errors.get()})
    HVD_CHECK(set_nonblocking(fd));
  return process;
}

}  // namespace hvdrun
