// A process of this host whose stdin and stdout carry an agent's link: ssh, or the agent's guard.
// Passes on its stderr in lines, notes its end, and reaps it.
//
// Its channel owns it, on the loop's thread. A process that hangs at its end is killed.
#pragma once

#include "base/event_loop.hpp"
#include "channels/child_process.hpp"
#include "channels/text_lines.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <sys/types.h>

namespace hvdrun {

class AgentProcess {
 public:
  struct Events {
    std::function<void(std::string)> on_line;  // of its stderr
    std::function<void()> on_end;              // after its last line
  };

  // `process` is one of start_watched_child().
  AgentProcess(const EventLoop& loop, ChildProcess process, Events events);
  // Kills it if it still runs.
  ~AgentProcess();
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  pid_t pid() const { return process_.pid; }
  bool ended() const { return status_.has_value(); }
  int status() const { return status_.value_or(0); }  // as of wait(2), once it has ended
  // Returns the beginning of its stderr.
  const std::string& text() const { return text_.beginning(); }

  // Waits for its end, and blocks the loop. Returns whether its exit code was 0. No event is called
  // any more.
  bool wait();

 private:
  void reap();
  void on_end();
  void read_errors();

  ChildProcess process_;
  const Events events_;
  FdEvent errors_event_;
  FdEvent end_event_;
  TextLines text_;
  std::optional<int> status_;
};

}  // namespace hvdrun
