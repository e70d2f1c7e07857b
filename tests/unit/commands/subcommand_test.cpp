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

std::string answer_to(const std::string& command, const std::vector<std::string>& args) {
  bool once = false;
  const auto words = take_flags(command, args, {{"--once", &once}});
  return words ? "" : words.error().message;
}

TEST(TakeFlags, AnOptionOfAnotherToolGetsWhatToType) {
  EXPECT_EQ(answer_to("hvdrun jobs", {"-n", "my run"}),
            "-n is an option of SLURM's squeue: squeue --me -n 'my run'");
  EXPECT_EQ(answer_to("hvdrun jobs", {"--states=PD"}),
            "--states is an option of SLURM's squeue: squeue --me --states=PD");
  EXPECT_EQ(answer_to("hvdrun cancel", {"-s", "USR1", "7"}),
            "-s is an option of SLURM's scancel: scancel -s USR1 7");
  EXPECT_EQ(answer_to("hvdrun top", {"-n5"}), "-n is an option of top: hvdrun top --once");
  EXPECT_EQ(answer_to("hvdrun logs", {"--tail=5"}),
            "--tail is an option of kubectl: hvdrun logs -n LINES");
  EXPECT_EQ(answer_to("hvdrun why", {"-Z"}),
            "unknown option -Z of hvdrun why; hvdrun why --help lists all");
}

TEST(TakeFlags, AnOptionOfAJobsStartIsNamed) {
  EXPECT_EQ(answer_to("hvdrun top", {"-np", "2"}),
            "-np is an option of a job's start, and not of hvdrun top");
}

TEST(TakeFlags, AnOptionOfAnotherCommandIsNamed) {
  EXPECT_EQ(answer_to("hvdrun why", {"--lines=5"}),
            "--lines=5 is an option of hvdrun logs, and not of hvdrun why");
  EXPECT_EQ(answer_to("hvdrun follow", {"--once"}), "");
  EXPECT_EQ(answer_to("hvdrun jobs", {"--sort", "cpu"}),
            "--sort is an option of SLURM's squeue: squeue --me --sort cpu");
}

TEST(TakeFlags, AShortOptionMayMeanTheOnlyLongOneWithItsLetter) {
  std::optional<std::string> value;
  const auto answer = [&](const std::vector<CommandValue>& values) {
    const auto words = take_flags("hvdrun why", {"-r", "0"}, {}, values);
    return words ? "" : words.error().message;
  };
  EXPECT_EQ(answer({{"--rank", &value}, {"--lines", &value}}),
            "unknown option -r of hvdrun why; did you mean --rank?");
  EXPECT_EQ(answer({{"--rank", &value}, {"--repeat", &value}}),
            "unknown option -r of hvdrun why; hvdrun why --help lists all");
}

TEST(TakeFlags, AShortOptionIsNotGuessed) {
  bool all = false;
  const auto words = take_flags("hvdrun cancel", {"-Z"}, {{"-a", &all}});
  ASSERT_FALSE(words);
  EXPECT_EQ(words.error().message,
            "unknown option -Z of hvdrun cancel; hvdrun cancel --help lists all");
}

}  // namespace
}  // namespace hvdrun
