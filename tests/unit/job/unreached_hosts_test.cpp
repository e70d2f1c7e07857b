#include "job/unreached_hosts.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(UnreachableHost, HostsWithOneTroubleShareALine) {
  const std::vector<UnreachableHost> hosts{
      {"n3", "refused"}, {"x", "no such name"}, {"n4", "refused"}};
  EXPECT_EQ(unreached_lines(hosts),
            (std::vector<std::string>{"n[3-4]: refused", "x: no such name"}));
  EXPECT_EQ(unreached_reason(hosts), "could not start on n[3-4],x");
}

TEST(UnreachableHost, AHostIsNamedWhereItIsMeant) {
  const std::vector<UnreachableHost> hosts{{"n4", "no HOST; `ssh HOST true`"},
                                           {"n3", "no HOST; `ssh HOST true`"},
                                           {"HOST-1", "MY_HOST is not HOSTS (HOST)"}};
  EXPECT_EQ(unreached_lines(hosts),
            (std::vector<std::string>{"n[3-4]: no n3; `ssh n3 true`",
                                      "HOST-1: MY_HOST is not HOSTS (HOST-1)"}));
}

}  // namespace
}  // namespace hvdrun
