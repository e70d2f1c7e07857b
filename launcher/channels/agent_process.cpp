#include "channels/agent_process.hpp"

#include "base/subprocess.hpp"

#include <csignal>
#include <cstddef>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// A guard, here or where ssh has logged in, needs up to 11 s for what its agent has left. One that
// takes longer hangs.
constexpr std::chrono::milliseconds kLongestEnd{15000};

}  // namespace

AgentProcess::AgentProcess(const EventLoop& loop, ChildProcess process, Events events)
    : process_(std::move(process)),
      events_(std::move(events)),
      errors_event_(loop, process_.errors.get(), FdEvent::readable, [this] { read_errors(); }),
      end_event_(loop, process_.watched.get(), FdEvent::readable, [this] { on_end(); }),
      text_(events_.on_line) {
  errors_event_.enable();
  end_event_.enable();
}

AgentProcess::~AgentProcess() {
  if (ended()) return;
  ::kill(pid(), SIGKILL);
  wait_for_child(pid(), kKilledTimeout);
}

bool AgentProcess::wait() {
  if (!ended()) reap();
  return WIFEXITED(*status_) && WEXITSTATUS(*status_) == 0;
}

void AgentProcess::reap() {
  auto status = wait_for_child(pid(), kLongestEnd);
  if (!status) {
    ::kill(pid(), SIGKILL);
    status = wait_for_child(pid(), kKilledTimeout);
  }
  status_ = status.value_or(SIGKILL);
  errors_event_.disable();
  end_event_.disable();
}

void AgentProcess::on_end() {
  reap();
  read_errors();
  text_.end();
  events_.on_end();
}

// Reads what has arrived. A background master of ssh may keep the pipe open for hours, so its end
// means nothing.
void AgentProcess::read_errors() {
  char buffer[4096];
  ssize_t got = 0;
  while ((got = ::read(process_.errors.get(), buffer, sizeof buffer)) > 0)
    text_.add({buffer, static_cast<std::size_t>(got)});
  if (got == 0) errors_event_.disable();
}

}  // namespace hvdrun
