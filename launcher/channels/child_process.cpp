#include "channels/child_process.hpp"

#include "base/subprocess.hpp"
#include "base/system.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMostOutput = 1u << 20;

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

}  // namespace

Result<ChildProcess> start_child(const std::vector<std::string>& command,
                                 const ChildOptions& options) {
  Pipe input;
  Pipe output;
  HVD_TRY(Pipe errors, make_pipe());
  if (options.stream < 0) {
    if (options.input < 0) {
      HVD_TRY(input, make_pipe());
    }
    if (!options.errors_only) {
      HVD_TRY(output, make_pipe());
    }
  }
  SpawnStreams streams{options.stream, options.stream, errors.write.get()};
  if (options.stream < 0) {
    streams.in = options.input < 0 ? input.read.get() : options.input;
    streams.out = (options.errors_only ? errors.write : output.write).get();
  }
  ChildProcess process;
  auto started = spawn(command, streams, options.environment);
  if (!started) return fail(started.error().message, kExitUsage);
  process.pid = *started;
  process.link = {std::move(output.read), std::move(input.write)};
  process.errors = std::move(errors.read);
  for (const int fd : {process.link.in.get(), process.link.out.get(), process.errors.get()})
    if (fd >= 0) HVD_CHECK(set_nonblocking(fd));
  return process;
}

Result<Fd> watch_child(pid_t child) {
  Fd watched(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (watched) return watched;
  return watch_by_thread(child);
}

Result<std::string> output_of(const std::vector<std::string>& command,
                              std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
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

std::vector<bool> run_children(const std::vector<std::vector<std::string>>& commands,
                               std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<bool> ended_well(commands.size());
  std::vector<ChildProcess> running(commands.size());
  for (std::size_t i = 0; i < commands.size(); ++i) {
    auto child = start_child(commands[i], {std::nullopt, true});
    if (!child) continue;
    child->link = {};
    running[i] = std::move(*child);
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    auto& child = running[i];
    if (child.pid == 0) continue;
    // Its stderr closes when it ends, unless a process of its own outlives it.
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
    int status = 0;
    while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
    }
    ended_well[i] = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return ended_well;
}

}  // namespace hvdrun
