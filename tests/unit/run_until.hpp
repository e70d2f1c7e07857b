// Runs a loop until something has happened, for tests of channels.
#pragma once

#include "base/event_loop.hpp"

#include <chrono>
#include <functional>

#include <gtest/gtest.h>

namespace hvdrun {

// Runs the loop until `done`. Fails the test and names `what` if that takes a minute: a test that
// takes so long hangs.
inline void run_until(EventLoop& loop, const std::function<bool()>& done, const char* what) {
  bool late = false;
  Timer limit(loop, [&] { late = true; });
  limit.start(std::chrono::minutes(1));
  while (!done() && !late) loop.run_once();
  ASSERT_FALSE(late) << "waited in vain: " << what;
}

}  // namespace hvdrun
