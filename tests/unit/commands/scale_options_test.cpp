#include "commands/scale_options.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string error_of(const std::vector<std::string>& args) {
  const auto options = parse_scale_options(args);
  if (options) return "no error";
  EXPECT_EQ(options.error().exit_code, kExitUsage);
  return options.error().message;
}

TEST(ScaleOptions, SeparateItsOwnFromHvdruns) {
  const auto options =
      parse_scale_options({"-np", "4,1,2", "--verbose", "-H", "n1:4", "--repeat=3", "-xA=B",
                           "--grace", "2", "--report", "out", "train", "--repeat", "7"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_THAT(options->sizes, ElementsAre(1, 2, 4));
  EXPECT_EQ(options->repeats, 3);
  EXPECT_EQ(options->epochs_dropped, 1);
  EXPECT_EQ(options->folder, "out");
  EXPECT_FALSE(options->patterns.any());
  EXPECT_THAT(options->command, ElementsAre("train", "--repeat", "7"));
  EXPECT_THAT(options->job_options,
              testing::IsSupersetOf({"--verbose", "-H", "n1:4", "-xA=B", "--grace", "2"}));
}

TEST(ScaleOptions, AcceptSizesAsOtherLaunchersWriteThem) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-n", "1,2,3"}, {"-n1,2,3"}, {"1,2,3"}, {"-np", "1-3"}, {"1-3"}}) {
    auto args = words;
    args.emplace_back("train");
    const auto options = parse_scale_options(args);
    ASSERT_TRUE(options) << words[0] << ": " << options.error().message;
    EXPECT_THAT(options->sizes, ElementsAre(1, 2, 3)) << words[0];
    EXPECT_THAT(options->command, ElementsAre("train"));
  }
  EXPECT_THAT(error_of({"-np", "3-1", "train"}), HasSubstr("from the first to the last"));
  EXPECT_THAT(error_of({"-np", "1-1000000", "train"}), HasSubstr("at most 64 numbers of ranks"));
  EXPECT_THAT(error_of({"-np", "1-x", "train"}), HasSubstr("such as 1,2,4 or 1-4"));
}

TEST(ScaleOptions, AcceptSizesInRanksOrDevices) {
  const auto options = parse_scale_options({"--devices", "4,1", "train"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->unit, scale::Unit::devices);
  EXPECT_THAT(options->sizes, ElementsAre(1, 4));
  EXPECT_THAT(error_of({"--devices", "1,x", "train"}), HasSubstr("numbers of devices such as"));
  EXPECT_THAT(error_of({"-np", "1", "--devices", "1", "train"}), HasSubstr("does not go with"));
}

TEST(ScaleOptions, IncludeThoseOfSbatchWithSubmit) {
  const auto options = parse_scale_options(
      {"-np", "1,2", "--time", "5", "--submit", "--report", "out", "--requeue", "train"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_TRUE(options->submits);
  EXPECT_THAT(options->job_options, ElementsAre("--time", "5", "--requeue"));
  EXPECT_EQ(error_of({"-np", "1", "--time", "5", "train"}),
            "--time is an option of sbatch: it goes with --submit");
  EXPECT_EQ(error_of({"-np", "1", "--submit", "train"}),
            "--submit needs --report DIR, a folder that the hosts share: the jobs write there");
  EXPECT_THAT(error_of({"-np", "1", "--submit", "--report", "x", "--wait", "train"}),
              HasSubstr("--wait makes no sense in a study"));
  EXPECT_THAT(error_of({"-np", "1", "--submit", "--report", "x", "--show-output", "train"}),
              HasSubstr("hvdrun follow JOB"));
}

TEST(ScaleOptions, EndAtTwoDashes) {
  const auto options = parse_scale_options({"-np1", "--", "--repeat"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_THAT(options->sizes, ElementsAre(1));
  EXPECT_THAT(options->job_options, IsEmpty());
  EXPECT_THAT(options->command, ElementsAre("--repeat"));
}

TEST(ScaleOptions, AcceptRegularExpressions) {
  const auto options =
      parse_scale_options({"--num-proc=1,2", "--metric", "r ([0-9]+)", "--drop-epochs", "0",
                           "--show-output", "--loss=l=(.*)", "train"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_TRUE(options->patterns.throughput);
  EXPECT_TRUE(options->patterns.loss);
  EXPECT_FALSE(options->patterns.accuracy);
  EXPECT_EQ(options->epochs_dropped, 0);
  EXPECT_TRUE(options->shows_output);
}

TEST(ScaleOptions, RefuseMissingAndInvalidValues) {
  EXPECT_EQ(error_of({"train"}), "hvdrun scale needs the numbers of ranks to run with: -np 1,2,4");
  EXPECT_THAT(error_of({"-np", "1,2"}), HasSubstr("needs a program to run; hvdrun scale --help"));
  EXPECT_THAT(error_of({"-np", "1,2", "--report", "./train"}),
              HasSubstr("needs a program to run; --report took ./train as its value"));
  EXPECT_THAT(error_of({"--repaet", "3", "-np", "1", "x"}), HasSubstr("did you mean --repeat?"));
  EXPECT_THAT(error_of({"--foo", "-np", "1", "x"}),
              HasSubstr("unknown option --foo of hvdrun scale"));
  EXPECT_THAT(error_of({"--warmup", "3", "-np", "1", "x"}), HasSubstr("of hyperfine: "));
  EXPECT_THAT(error_of({"-r", "3", "-np", "1", "x"}), HasSubstr("hvdrun scale --repeat N"));
  EXPECT_EQ(error_of({"-np"}), "-np needs a value");
  EXPECT_THAT(error_of({"-np", "1,,2", "train"}),
              HasSubstr("-np needs numbers of ranks such as 1,2,4"));
  EXPECT_THAT(error_of({"-np", "0", "train"}), HasSubstr("-np needs numbers of ranks"));
  EXPECT_EQ(error_of({"-np", "2,1,2", "train"}), "-np has 2 twice");
  EXPECT_THAT(error_of({"-np", "1", "--repeat", "0", "train"}), HasSubstr("--repeat "));
  EXPECT_THAT(error_of({"-np", "1", "--metric", "rate", "train"}),
              HasSubstr("--metric \"rate\" has no group"));
  EXPECT_THAT(error_of({"-np", "1", "--dry-run", "train"}), HasSubstr("--dry-run makes no sense"));
  EXPECT_THAT(error_of({"-np", "1", "--explain", "train"}), HasSubstr("--explain makes no sense"));
}

TEST(ScaleOptions, HelpShowsTheUsage) {
  const auto options = parse_scale_options({"-np", "1", "--help", "nonsense"});
  ASSERT_TRUE(options);
  EXPECT_TRUE(options->help);
  EXPECT_THAT(scale_help(), HasSubstr("usage: hvdrun scale"));
}

}  // namespace
}  // namespace hvdrun
