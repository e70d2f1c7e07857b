#include "job/unreached.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(Unreached, HostsWithOneTroubleShareALine) {
  const std::vector<Unreached> hosts{{"n3", "refused"}, {"x", "no such name"}, {"n4", "refused"}};
  EXPECT_EQ(unreached_lines(hosts),
            (std::vector<std::string>{"n[3-4]: refused", "x: no such name"}));
  EXPECT_EQ(unreached_reason(hosts), "could not start on n[3-4],x");
}

}  // namespace
}  // namespace hvdrun
