#include "commands/subcommand.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;

TEST(TakeFlags, AcceptsFlagsAnywhereBeforeTwoDashes) {
  bool json = false;
  bool help = false;
  const auto words = take_flags("hvdrun jobs", {"1", "--json", "2", "-", "--", "--help", "-x"},
                                {{"--json", &json}, {"--help", &help}});
  ASSERT_TRUE(words);
  EXPECT_THAT(*words, ElementsAre("1", "2", "-", "--help", "-x"));
  EXPECT_TRUE(json);
  EXPECT_FALSE(help);
}

TEST(TakeFlags, AcceptsShortHelp) {
  bool help = false;
  ASSERT_TRUE(take_flags("hvdrun jobs", {"-h"}, {{"--help", &help}}));
  EXPECT_TRUE(help);
}

TEST(TakeFlags, SuggestsASimilarFlag) {
  bool json = false;
  const std::pair<const char*, const char*> cases[] = {
      {"--jsn", "unknown option --jsn of hvdrun jobs; did you mean --json?"},
      {"--xyzzy\n", "unknown option \"--xyzzy\\n\" of hvdrun jobs; hvdrun jobs --help lists all"},
  };
  for (const auto& [word, expected] : cases) {
    const auto words = take_flags("hvdrun jobs", {word}, {{"--json", &json}});
    ASSERT_FALSE(words);
    EXPECT_EQ(words.error().message, expected);
    EXPECT_EQ(words.error().exit_code, kExitUsage);
  }
}

}  // namespace
}  // namespace hvdrun
