// Runs the agent's loop so that a fault of ours, an exception, ends the job in order: the ranks get
// their grace period. On the loop's thread.
#pragma once

#include "base/event_loop.hpp"

#include <functional>
#include <string>

namespace hvdrun {

struct FaultyRun {
  std::function<void()> begin;
  std::function<void(const std::string& what)> on_fault;
  std::function<bool()> is_over;
};

// Calls begin(), and runs the loop until it is stopped. After an exception calls on_fault(), which
// may throw as well, and runs the loop again. Throws the last of too many exceptions.
void run_through_faults(EventLoop& loop, const FaultyRun& run);

}  // namespace hvdrun
