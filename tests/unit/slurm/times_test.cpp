#include "slurm/times.hpp"

#include <cstdlib>

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using std::chrono::seconds;
using testing::Eq;
using testing::Optional;

TEST(Times, ReadsDurationsOfSqueue) {
  const struct {
    const char* text;
    int expected;
  } cases[] = {
      {"0:00", 0},     {"0:59", 59},        {"59:57", 3597},       {"1:00:00", 3600},
      {"00:00:09", 9}, {"23:59:59", 86399}, {"1-00:00:00", 86400}, {"365-00:00:00", 31536000}};
  for (const auto& each : cases)
    EXPECT_THAT(parse_duration(each.text), Optional(seconds(each.expected))) << each.text;
}

TEST(Times, RefusesInvalidDurations) {
  for (const char* text :
       {"", "UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit", "5", "-1:00", "1:", ":1", "1-",
        "1:2:3:4", "1:2-3", "99999999999999999999:00", "1:00 "})
    EXPECT_THAT(parse_duration(text), Eq(std::nullopt)) << text;
}

TEST(Times, ReadsMoments) {
  EXPECT_THAT(parse_moment("1795343136"), Optional(1795343136));
  for (const char* text : {"", "0", "N/A", "NONE", "Unknown", "None", "2026-11-22T10:27:37", "-1"})
    EXPECT_THAT(parse_moment(text), Eq(std::nullopt)) << text;
}

TEST(Times, FormatsDurationsAndMoments) {
  EXPECT_EQ(duration_text(seconds(-5)), "0:00");
  EXPECT_EQ(duration_text(seconds(65)), "1:05");
  EXPECT_EQ(duration_text(seconds(3600)), "1:00:00");
  EXPECT_EQ(duration_text(seconds(90061)), "1-01:01:01");
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_EQ(moment_text(1795343136, 1795343200), "10:25:36");
  EXPECT_EQ(moment_text(1795343136, 1795343136 + 86400), "2026-11-22 10:25:36");
}

}  // namespace
}  // namespace hvdrun
