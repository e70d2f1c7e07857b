#include "commands/logs.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

std::string answer(const std::vector<std::string>& args) {
  const auto code = run_logs(args, {});
  return code ? "" : code.error().message;
}

TEST(Logs, SaysHowToNameARankThatFollowsTheJob) {
  EXPECT_EQ(answer({"33", "3"}),
            "hvdrun logs takes one job; for ranks of it: hvdrun logs --rank 3 33");
  EXPECT_EQ(answer({"33", "0,4-7"}),
            "hvdrun logs takes one job; for ranks of it: hvdrun logs --rank 0,4-7 33");
  EXPECT_EQ(answer({"33", "x"}), "hvdrun logs takes one job");
  EXPECT_EQ(answer({"-r", "0"}), "unknown option -r of hvdrun logs; did you mean --rank?");
}

}  // namespace
}  // namespace hvdrun
