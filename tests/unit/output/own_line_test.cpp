#include "output/own_line.hpp"

#include "base/severity.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(OwnLine, StartsWithItsSeverity) {
  EXPECT_EQ(own_line(error_text("no room"), false), "hvdrun: error: no room");
  EXPECT_EQ(own_line(warning_text("rank 1 waits"), false), "hvdrun: warning: rank 1 waits");
  EXPECT_EQ(own_line("2 ranks succeeded", false), "hvdrun: note: 2 ranks succeeded");
}

TEST(OwnLine, HasNoSeverityIfItContinuesALine) {
  EXPECT_EQ(own_line("  | error: of the program", true), "hvdrun:   | error: of the program");
}

TEST(OwnLine, ColorsOnlyTheSeverity) {
  EXPECT_EQ(own_line("error: no room", true), "hvdrun: \x1b[1;31merror:\x1b[0m no room");
}

TEST(OwnLine, LosesItsSeverityWhenItIsQuoted) {
  EXPECT_EQ(without_severity("error: no room"), "no room");
  EXPECT_EQ(without_severity("note: job 7"), "job 7");
  EXPECT_EQ(without_severity("no room"), "no room");
}

}  // namespace
}  // namespace hvdrun
