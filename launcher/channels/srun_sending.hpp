// Sends this program to hosts of a SLURM job that lack it: through the stdin of a step on the first
// host, then of a step on the others, because they may have the same home folder. See
// sent_agent.hpp.
//
// Belongs to the loop's thread. SIGPIPE must be ignored or blocked. Failures are those of the
// steps, and go to `done`.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/sent_agent.hpp"
#include "channels/srun_command.hpp"
#include "channels/srun_failure.hpp"
#include "channels/srun_step.hpp"
#include "common/fd.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

class SrunSending {
 public:
  // Called once, from the loop. It may destroy its SrunSending. A failure without hosts is of all
  // hosts.
  using Done = std::function<void(const std::vector<SrunFailure>&)>;

  // Starts to send. `options.sent` is set. `environment`: of srun. Error: no step can be started,
  // or this program's file cannot be read.
  static Result<std::unique_ptr<SrunSending>> start(const EventLoop& loop, SrunOptions options,
                                                    std::vector<std::string> hosts,
                                                    std::vector<std::string> environment,
                                                    Done done);

 private:
  SrunSending(const EventLoop& loop, SrunOptions options, std::vector<std::string> hosts,
              std::vector<std::string> environment, Done done);
  Result<void> start_step(const std::vector<std::string>& hosts);
  void on_line(const SrunLine& line);
  void on_step_ended();

  const EventLoop& loop_;
  const SrunOptions options_;
  std::vector<std::string> hosts_;  // that no step was started on yet
  const std::vector<std::string> environment_;
  const Done done_;
  AgentFile file_;
  std::unique_ptr<SrunStep> step_;
  std::vector<SrunLine> lines_;  // of the present step
  std::vector<SrunTaskEnd> ends_;
  std::vector<SrunFailure> failures_;
  Timer ended_;  // a step must not be destroyed within its own event
};

}  // namespace hvdrun
