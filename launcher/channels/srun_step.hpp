// One running srun, and through it one step of a SLURM job.
//
// Its owner runs it on the loop's thread and must ignore or block SIGPIPE. Its stdin is the agents'
// lifeline until they have connected: when it closes, because the launcher hangs up or is gone,
// agents that have not connected end. Failures of the step are lines that srun prints, and its wait
// status.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/child_process.hpp"
#include "channels/srun_output.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// srun itself waits for the hosts for slurm.conf's KillWait, 30 s by default.
inline constexpr std::chrono::seconds kKillTimeout{40};

class SrunStep {
 public:
  struct Events {
    std::function<void(const SrunLine&)> on_line;
    std::function<void()> on_ended;  // after its last line; then wait_status() is set
  };

  // Starts srun. `input`: a file that all tasks get as their stdin, instead of what is written to
  // them. Error: there is no such program, or no descriptors are left.
  static Result<std::unique_ptr<SrunStep>> start(const EventLoop& loop,
                                                 const std::vector<std::string>& command,
                                                 std::vector<std::string> environment,
                                                 Events events, int input = -1);
  // Ends srun, and with it the step, if it still runs.
  ~SrunStep();
  SrunStep(const SrunStep&) = delete;
  SrunStep& operator=(const SrunStep&) = delete;

  // Writes to the stdin of all tasks. The text must fit into a pipe.
  void write_to_tasks(std::string_view text);
  void hang_up();  // closes the stdin of all tasks

  // Ends srun and its child processes, but not the step. All tasks must be known to run, and they
  // continue without srun. Otherwise TERM, which scancel and the time limit send to every process
  // of a batch script, would make srun kill its tasks. No event is called after this.
  void let_go();

  std::optional<int> wait_status() const { return wait_status_; }

  // Waits until srun has ended, and blocks the loop. After `timeout` it sends srun TERM, so that it
  // ends the step and what is left of it on all hosts. After another `kill_timeout` it kills srun.
  // Returns whether srun ended by itself.
  bool reap(std::chrono::milliseconds timeout,
            std::chrono::milliseconds kill_timeout = kKillTimeout);

 private:
  SrunStep(const EventLoop& loop, ChildProcess process, Events events);
  void read_lines();
  void on_process_end();
  bool wait_for_end(std::chrono::milliseconds timeout);

  ChildProcess process_;
  Events events_;
  SrunReader reader_;
  std::optional<int> wait_status_;
  FdEvent readable_;
  FdEvent ended_;
};

}  // namespace hvdrun
