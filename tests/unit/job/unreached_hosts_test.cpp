#include "job/unreached_hosts.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(UnreachableHost, HostsWithTheSameErrorShareALine) {
  const std::vector<UnreachableHost> hosts{
      {"n3", "refused"}, {"x", "no such name"}, {"n4", "refused"}};
  EXPECT_EQ(unreached_lines(hosts),
            (std::vector<std::string>{"n[3-4]: refused", "x: no such name"}));
  EXPECT_EQ(unreached_reason(hosts), "could not start on n[3-4],x");
}

TEST(UnreachableHost, WordHostIsReplacedByTheNameOfTheHost) {
  const std::vector<UnreachableHost> hosts{{"n4", "no HOST; `ssh HOST true`"},
                                           {"n3", "no HOST; `ssh HOST true`"},
                                           {"HOST-1", "MY_HOST is not HOSTS (HOST)"}};
  EXPECT_EQ(unreached_lines(hosts),
            (std::vector<std::string>{"n[3-4]: no n3; `ssh n3 true`",
                                      "HOST-1: MY_HOST is not HOSTS (HOST-1)"}));
}

TEST(UnconfirmedHost, IsNamedWithTheProcessesThatMayRemain) {
  std::vector<RankReport> ranks(4);
  for (int rank = 0; rank < 4; ++rank) {
    auto& report = ranks[static_cast<std::size_t>(rank)];
    report.placement.rank = rank;
    report.host = rank == 0 ? "n1" : "n2";
    report.pid = 100 + rank;
  }
  ranks[2].exited = true;
  EXPECT_EQ(unconfirmed_lines({{"n2", 99, false}, {"n3", 98, true}}, ranks),
            (std::vector<std::string>{
                "n2 has not confirmed the end of pid 99 (hvdrun-agent), 101 (rank 1), 103 (rank 3)",
                "n3 has not confirmed the end of pid 98 (hvdrun-agent)"}));
}

}  // namespace
}  // namespace hvdrun
