#include "io/rank_path.hpp"

#include "support.hpp"

#include <gtest/gtest.h>

namespace libhvd {
namespace {

const Environment kEnvironment = test::make_environment(
    {{"HVD_HOSTNAME", "n7"}, {"HVD_JOB_ID", "abc"}, {"HVD_RESTART_COUNT", "2"}});

// Rank 3 of 12, the second on the second of three hosts.
Topology topology() {
  Topology topology;
  topology.rank = 3;
  topology.size = 12;
  topology.local_rank = 1;
  topology.local_size = 4;
  topology.node_rank = 1;
  topology.node_count = 3;
  return topology;
}

struct Case {
  const char* pattern;
  const char* expected;  // the path, or a part of the error
};

class RankPath : public testing::TestWithParam<Case> {};

TEST_P(RankPath, GivesThePathOrTheError) {
  const auto path = rank_path(GetParam().pattern, topology(), kEnvironment);
  EXPECT_EQ(path.ok() ? *path : path.error().message, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(ValidPatterns, RankPath,
                         testing::Values(Case{"out/{rank}.txt", "out/03.txt"},
                                         Case{"{rank}of{size}", "03of12"},
                                         Case{"{host}-{local_rank}", "n7-1"},
                                         Case{"{node_rank}.{local_rank}", "1.1"},
                                         Case{"{job}/{restart}/{rank}", "abc/2/03"},
                                         Case{"{{{rank}}}", "{03}"}, Case{"}}{rank}", "}03"}));

INSTANTIATE_TEST_SUITE_P(
    InvalidPatterns, RankPath,
    testing::Values(
        Case{"all.txt", "file name \"all.txt\": all ranks would have one file; put {rank} into it"},
        Case{"{local_rank}",
             "file name \"{local_rank}\": all ranks would have one file; put {rank} into it"},
        Case{"{rank", "file name \"{rank\": \"{\" without \"}\""},
        Case{"rank}", "file name \"rank}\": \"}\" without \"{\"; a brace itself is written twice"},
        Case{"{Rank}",
             "file name \"{Rank}\": {Rank} is not one of {rank}, {size}, {local_rank}, "
             "{node_rank}, {host}, {job}, {restart}"}));

TEST(RankPathAlone, NeedsNoRankField) {
  const auto path = rank_path("all-{job}.txt", Topology{}, test::make_environment({}));
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(*path, "all-alone.txt");
}

TEST(RankPathOnOneHost, IsUniqueByTheLocalRank) {
  Topology one_host = topology();
  one_host.node_count = 1;
  EXPECT_TRUE(rank_path("{local_rank}", one_host, kEnvironment).ok());
}

}  // namespace
}  // namespace libhvd
