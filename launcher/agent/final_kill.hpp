// The last means of an agent: SIGKILL for every process below it, again and again, since some are
// being born meanwhile. On the loop's thread.
#pragma once

#include "agent/process_tree.hpp"
#include "base/event_loop.hpp"

#include <functional>
#include <vector>

namespace hvdrun {

class FinalKill {
 public:
  struct Events {
    std::function<void()> on_round;  // after each; the owner looks whether anybody is left
    // What does not die for so long hangs in the kernel. No further round comes.
    std::function<void(const std::vector<ProcessInfo>&)> on_given_up;
  };
  FinalKill(const EventLoop& loop, Events events);

  // One round now, and more until nothing is left. The first sets the clock for all.
  void strike();

 private:
  Events events_;
  Timer again_;
  int rounds_ = 0;
};

}  // namespace hvdrun
