#include "channels/child_process.hpp"

#include "base/patience.hpp"
#include "base/subprocess.hpp"
#include "base/system.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMostOutput = 1u << 20;
constexpr std::chrono::milliseconds kLookInterval{100};

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

Result<ChildProcess> start_watched_child(const std::vector<std::string>& command,
                                         const ChildOptions& options) {
  HVD_TRY(ChildProcess process, start_child(command, options));
  auto watched = watch_child(process.pid);
  if (!watched) {
    ::kill(process.pid, SIGKILL);
    wait_for_child(process.pid, kKilledTimeout);
    return std::move(watched).error();
  }
  process.watched = std::move(*watched);
  return process;
}

Result<std::string> output_of(const std::vector<std::string>& command,
                              std::chrono::milliseconds timeout,
                              const std::function<bool()>& is_cut) {
  auto looks = timeout / kLookInterval + 1;
  const auto wait = [&](int fd) {
    for (; looks > 0 && !is_cut(); --looks)
      if (Patience(kLookInterval).wait(fd, POLLIN)) return true;
    return false;
  };
  HVD_TRY(ChildProcess child, start_child(command));
  child.link.out.reset();
  const auto watched = watch_child(child.pid);
  std::string text;
  bool whole = false;
  while (!whole && text.size() < kMostOutput && wait(child.link.in.get())) {
    std::array<char, 4096> bytes;  // NOLINT: filled by read
    const ssize_t got = ::read(child.link.in.get(), bytes.data(), bytes.size());
    if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
    whole = got == 0;
  }
  // It may have closed its stdout without ending.
  const bool ended = whole && (!watched || wait(watched->get()));
  if (!ended) ::kill(child.pid, SIGKILL);
  wait_for_child(child.pid, kKilledTimeout);
  return ended ? text : std::string();
}

std::vector<bool> run_children(const std::vector<std::vector<std::string>>& commands,
                               std::chrono::milliseconds timeout) {
  Patience patience(timeout);
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
    bool open = true;
    while (open && patience.wait(child.errors.get(), POLLIN)) {
      std::array<char, 4096> ignored;  // NOLINT: filled by read
      open = ::read(child.errors.get(), ignored.data(), ignored.size()) != 0;
    }
    auto status = open ? std::nullopt : wait_for_child(child.pid, kKilledTimeout);
    if (!status) {
      ::kill(child.pid, SIGKILL);
      status = wait_for_child(child.pid, kKilledTimeout);
    }
    ended_well[i] = status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
  }
  return ended_well;
}

}  // namespace hvdrun
