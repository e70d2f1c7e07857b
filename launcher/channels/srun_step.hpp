// One running srun.
//
// Its stdin is the agents' lifeline until they have connected: when it closes, because we have hung
// up or are gone, agents that have not connected leave. On the loop's thread.
#pragma once

#include "base/event_loop.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "channels/child_process.hpp"
#include "channels/srun.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// srun itself waits for the hosts as long as slurm.conf's KillWait says, 30 s by default.
inline constexpr std::chrono::seconds kKillTimeout{40};

class SrunStep {
 public:
  struct Events {
    std::function<void(const SrunLine&)> on_line;
    std::function<void()> on_ended;  // after its last line; how: wait_status()
  };

  // Error: there is no such program.
  static Result<std::unique_ptr<SrunStep>> start(const EventLoop& loop,
                                                 const std::vector<std::string>& command,
                                                 std::vector<std::string> environment,
                                                 Events events);
  // Ends srun, and with it the step, if it still runs.
  ~SrunStep();
  SrunStep(const SrunStep&) = delete;
  SrunStep& operator=(const SrunStep&) = delete;

  void say(std::string_view text);  // to the stdin of all tasks; at most what a pipe holds
  void hang_up();

  // Ends srun, and whatever it is part of, but not the step: the tasks, all of which must be known
  // to run, go on without it. (TERM to srun is KILL for its tasks, and scancel and the time limit
  // send it to every process of a batch script.) Nothing is reported any more.
  void let_go();

  std::optional<int> wait_status() const { return wait_status_; }

  // Waits until srun has ended, blocking the loop. After `timeout` srun is told to end the step,
  // which kills what is left of it on all hosts, and after `kill_timeout` is itself killed.
  // Returns whether it ended by itself.
  bool reap(std::chrono::milliseconds timeout,
            std::chrono::milliseconds kill_timeout = kKillTimeout);

 private:
  SrunStep(const EventLoop& loop, ChildProcess process, Fd alive, Events events);
  void read_lines();
  void on_process_end();
  bool wait_for_end(std::chrono::milliseconds timeout);

  ChildProcess process_;
  Fd alive_;  // a pidfd: readable once srun has ended
  Events events_;
  SrunReader reader_;
  std::optional<int> wait_status_;
  FdEvent readable_;
  FdEvent ended_;
};

}  // namespace hvdrun
