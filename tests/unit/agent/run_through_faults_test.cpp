#include "agent/run_through_faults.hpp"

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(RunThroughFaults, RunsTheLoopAgainAfterAFault) {
  EventLoop loop;
  std::vector<std::string> faults;
  Timer timer(loop, [] { throw std::runtime_error("in a callback"); });
  Timer ends(loop, [&loop] { loop.stop(); });
  run_through_faults(loop, {[&timer] { timer.start(std::chrono::milliseconds(0)); },
                            [&](const std::string& what) {
                              faults.push_back(what);
                              if (faults.size() == 1) throw std::runtime_error("in the handler");
                              ends.start(std::chrono::milliseconds(0));
                            },
                            [] { return false; }});
  EXPECT_EQ(faults, (std::vector<std::string>{"in a callback", "in the handler"}));
}

TEST(RunThroughFaults, ThrowsTheLastOfTooManyFaults) {
  EventLoop loop;
  const auto fails = [] { throw std::runtime_error("always"); };
  EXPECT_THROW(run_through_faults(loop, {fails, [&](const std::string& /*what*/) { fails(); },
                                         [] { return false; }}),
               std::runtime_error);
}

}  // namespace
}  // namespace hvdrun
