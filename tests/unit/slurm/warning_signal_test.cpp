#include "slurm/warning_signal.hpp"

#include <csignal>

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(WarningSignal, IsReadAsSbatchReadsIt) {
  const auto usual = parse_warning_signal("B:USR1@120");
  ASSERT_TRUE(usual);
  EXPECT_TRUE(usual->for_shell);
  EXPECT_EQ(usual->number, SIGUSR1);
  EXPECT_EQ(usual->before, seconds(120));
  const auto short_one = parse_warning_signal("sigterm");
  ASSERT_TRUE(short_one);
  EXPECT_FALSE(short_one->for_shell);
  EXPECT_EQ(short_one->number, SIGTERM);
  EXPECT_EQ(short_one->before, seconds(60));
  EXPECT_EQ(parse_warning_signal("RB:10@5")->number, 10);
  for (const auto* wrong : {"", "X:USR1", ":USR1", "USR9", "USR1@", "USR1@soon", "0", "1000"})
    EXPECT_FALSE(parse_warning_signal(wrong)) << wrong;
}

TEST(WarningSignal, OnlyOneThatHvdrunGetsAndPassesOnLetsAJobBeRequeued) {
  for (const auto* right : {"B:USR1@120", "B:USR2", "RB:URG@60", "B:40@60", "nonsense"})
    EXPECT_EQ(why_not_requeued(right), "") << right;
  EXPECT_THAT(why_not_requeued("USR1@60"), HasSubstr("type --signal B:USR1@60"));
  EXPECT_THAT(why_not_requeued("USR2@60"), HasSubstr("type --signal B:USR2@60"));
  EXPECT_THAT(why_not_requeued("60"), HasSubstr("type --signal B:USR1@60"));
  EXPECT_THAT(why_not_requeued("TERM@120"), HasSubstr("type --signal B:USR1@120"));
  for (const auto* ends : {"B:TERM@120", "B:INT@120", "B:HUP@120", "B:KILL@120", "B:15@120"})
    EXPECT_THAT(why_not_requeued(ends), HasSubstr("ends the job")) << ends;
}

TEST(WarningSignal, LimitIsReadAsSbatchReadsIt) {
  EXPECT_EQ(parse_limit("90"), seconds(90 * 60));
  EXPECT_EQ(parse_limit("1:30"), seconds(90));
  EXPECT_EQ(parse_limit("1:30:05"), seconds(5405));
  EXPECT_EQ(parse_limit("2-0"), seconds(2 * 86400));
  EXPECT_EQ(parse_limit("1-2:30"), seconds(86400 + 9000));
  EXPECT_EQ(parse_limit("1-2:30:01"), seconds(86400 + 9001));
  for (const auto* wrong : {"", "UNLIMITED", "1:2:3:4", "-1", "1-", "a"})
    EXPECT_FALSE(parse_limit(wrong)) << wrong;
}

TEST(WarningSignal, LimitLeavesTimeBeforeTheWarningOrNot) {
  const WarningSignal warning{true, SIGUSR1, seconds(120)};
  EXPECT_EQ(compare_limit(seconds(181), warning).text, "");
  const auto unsure = compare_limit(seconds(180), warning);
  EXPECT_THAT(unsure.text, HasSubstr("may stop as soon as they have started"));
  EXPECT_FALSE(unsure.is_sure);
  const auto sure = compare_limit(seconds(60), warning);
  EXPECT_THAT(sure.text, HasSubstr("would stop as soon as they have started; choose a --time of at "
                                   "least 4 minutes"));
  EXPECT_TRUE(sure.is_sure);
}

}  // namespace
}  // namespace hvdrun
