// Which rank has hvdrun's terminal, and the keys with which the user stops the job there. Pure, but
// for looking at descriptors 0 to 2.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "job/plan.hpp"
#include "model/job_spec.hpp"

#include <string_view>
#include <vector>

namespace hvdrun {

// Checks that --tty has a terminal, and gives it to the only rank of a job if nothing but that rank
// needs it: stdin, stdout and stderr are the same terminal, hvdrun is in its foreground, and no
// option asks for labels or files. Error: kExitUsage.
Result<void> settle_terminal(JobSpec& spec, const Plan& plan);

// Watches the keys that go to the rank. In raw mode Ctrl-C is a byte like any other.
class InterruptKeys {
 public:
  // Returns whether the user wants to stop the job: the third Ctrl-C within a second.
  bool take(std::string_view keys, EventLoop::Clock::time_point now);

  // Returns whether Ctrl-C was typed at all.
  bool any() const { return any_; }

 private:
  bool any_ = false;
  std::vector<EventLoop::Clock::time_point> times_;
};

}  // namespace hvdrun
