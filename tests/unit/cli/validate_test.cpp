#include "cli/validate.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(ValidateRanks, AcceptsRanksOfTheJob) {
  JobSpec job;
  EXPECT_TRUE(validate_ranks(job, 1));
  job.output.only_ranks = RankSet::parse("0,2-3").value();
  job.input.rank = 3;
  EXPECT_TRUE(validate_ranks(job, 4));
}

TEST(ValidateRanks, RefusesRanksThatTheJobDoesNotHave) {
  JobSpec job;
  job.output.only_ranks = RankSet::parse("0,9").value();
  EXPECT_EQ(validate_ranks(job, 2).error().message,
            "--only-rank names rank 9, but the job has 2 ranks: its ranks are 0-1");
  EXPECT_EQ(validate_ranks(job, 2).error().exit_code, kExitUsage);
  job.output.only_ranks.reset();
  job.input.rank = 5;
  EXPECT_EQ(validate_ranks(job, 1).error().message,
            "--stdin names rank 5, but the job has 1 rank: its only rank is 0");
  job.input.to = InputSpec::To::all;
  EXPECT_TRUE(validate_ranks(job, 1));
}

}  // namespace
}  // namespace hvdrun
