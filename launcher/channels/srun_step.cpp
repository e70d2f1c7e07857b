#include "channels/srun_step.hpp"

#include "agent/process_tree.hpp"
#include "base/subprocess.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using Clock = std::chrono::steady_clock;

// Reaps a child that has ended or was sent SIGKILL.
int wait_for(pid_t child) {
  return wait_for_child(child, kKilledTimeout).value_or(SIGKILL);
}

}  // namespace

Result<std::unique_ptr<SrunStep>> SrunStep::start(const EventLoop& loop,
                                                  const std::vector<std::string>& command,
                                                  std::vector<std::string> environment,
                                                  Events events, int input) {
  auto started = start_watched_child(command, {std::move(environment), true, -1, input});
  const bool by_path = command.front().find('/') == std::string::npos;
  if (!started && by_path &&
      started.error().message.ends_with(std::generic_category().message(ENOENT)))
    return fail(
        "srun is not in PATH, and hvdrun reaches the other hosts of a SLURM job by it; load "
        "SLURM's module, or use ssh: env -u SLURM_JOB_ID hvdrun -H HOST,HOST",
        started.error().exit_code);
  HVD_TRY(ChildProcess process, std::move(started));
  return std::unique_ptr<SrunStep>(new SrunStep(loop, std::move(process), std::move(events)));
}

SrunStep::SrunStep(const EventLoop& loop, ChildProcess process, Events events)
    : process_(std::move(process)),
      events_(std::move(events)),
      readable_(loop, process_.errors.get(), FdEvent::readable, [this] { read_lines(); }),
      ended_(loop, process_.watched.get(), FdEvent::readable, [this] { on_process_end(); }) {
  readable_.enable();
  ended_.enable();
}

SrunStep::~SrunStep() {
  events_ = {};
  hang_up();
  reap(std::chrono::milliseconds(0));
}

void SrunStep::write_to_tasks(std::string_view text) {
  // An srun that has ended already reports the reason itself.
  [[maybe_unused]] const auto written = ::write(process_.link.out.get(), text.data(), text.size());
}

void SrunStep::hang_up() {
  process_.link.out.reset();
}

// Kills srun's descendants before srun. A helper of srun kills the step if srun ends before it has
// reported success, and srun may be a site's script around the real one. So all of them are first
// stopped, so that none starts another, and then killed from the last one up.
void SrunStep::let_go() {
  events_ = {};
  hang_up();
  readable_.disable();
  if (wait_status_) return;
  ended_.disable();
  ::kill(process_.pid, SIGSTOP);
  const auto family = descendants_of(process_.pid, all_processes());  // parents first
  for (const auto& process : family) send_signal(process, SIGSTOP);
  for (auto process = family.rbegin(); process != family.rend(); ++process)
    send_signal(*process, SIGKILL);
  ::kill(process_.pid, SIGKILL);
  wait_status_ = wait_for(process_.pid);
  // Their parents are dead: if this process is a subreaper, they are its children.
  for (const auto& process : family) wait_for_child(process.pid, kKilledTimeout);
}

void SrunStep::read_lines() {
  std::array<char, 16384> buffer;  // NOLINT: filled by read
  const ssize_t got = ::read(process_.errors.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto lines =
      got > 0 ? reader_.feed({buffer.data(), static_cast<std::size_t>(got)}) : reader_.finish();
  if (got <= 0) {
    readable_.disable();
    process_.errors.reset();
  }
  if (!events_.on_line) return;
  for (const auto& line : lines) events_.on_line(line);
}

void SrunStep::on_process_end() {
  ended_.disable();
  // Another process may have its stderr, too, so the end of that is not waited for.
  pollfd more{process_.errors.get(), POLLIN, 0};
  while (process_.errors && ::poll(&more, 1, 0) > 0) read_lines();
  wait_status_ = wait_for(process_.pid);
  if (events_.on_ended) events_.on_ended();
}

bool SrunStep::wait_for_end(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (!wait_status_) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    std::array<pollfd, 2> waiting{pollfd{process_.watched.get(), POLLIN, 0},
                                  pollfd{process_.errors.get(), POLLIN, 0}};
    const int ready =
        ::poll(waiting.data(), waiting.size(),
               static_cast<int>(std::max(left, std::chrono::milliseconds(0)).count()));
    if (waiting[0].revents != 0)
      on_process_end();
    else if (waiting[1].revents != 0)
      read_lines();
    else if (ready == 0)
      return false;
  }
  return true;
}

bool SrunStep::reap(std::chrono::milliseconds timeout, std::chrono::milliseconds kill_timeout) {
  if (wait_for_end(timeout)) return true;
  ::kill(process_.pid, SIGTERM);
  if (!wait_for_end(kill_timeout)) {
    ::kill(process_.pid, SIGKILL);
    wait_for_end(kKillTimeout);
  }
  return false;
}

}  // namespace hvdrun
