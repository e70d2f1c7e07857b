#include "cli/horovod_options.hpp"

#include "cli/words.hpp"

#include <gmock/gmock.h>

namespace hvdrun::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// All options of horovodrun 0.28.1, from its launch.py.
constexpr std::string_view kHorovodrun[] = {"-v",
                                            "--version",
                                            "-np",
                                            "--num-proc",
                                            "-cb",
                                            "--check-build",
                                            "--disable-cache",
                                            "--start-timeout",
                                            "--network-interfaces",
                                            "--network-interface",
                                            "--output-filename",
                                            "--verbose",
                                            "--config-file",
                                            "-p",
                                            "--ssh-port",
                                            "-i",
                                            "--ssh-identity-file",
                                            "--fusion-threshold-mb",
                                            "--cycle-time-ms",
                                            "--cache-capacity",
                                            "--hierarchical-allreduce",
                                            "--no-hierarchical-allreduce",
                                            "--hierarchical-allgather",
                                            "--no-hierarchical-allgather",
                                            "--torus-allreduce",
                                            "--no-torus-allreduce",
                                            "--autotune",
                                            "--no-autotune",
                                            "--autotune-log-file",
                                            "--autotune-warmup-samples",
                                            "--autotune-steps-per-sample",
                                            "--autotune-bayes-opt-max-samples",
                                            "--autotune-gaussian-process-noise",
                                            "--min-np",
                                            "--min-num-proc",
                                            "--max-np",
                                            "--max-num-proc",
                                            "--slots-per-host",
                                            "--elastic-timeout",
                                            "--reset-limit",
                                            "--blacklist-cooldown-range",
                                            "--timeline-filename",
                                            "--timeline-mark-cycles",
                                            "--no-timeline-mark-cycles",
                                            "--no-stall-check",
                                            "--stall-check",
                                            "--stall-check-warning-time-seconds",
                                            "--stall-check-shutdown-time-seconds",
                                            "--mpi-threads-disable",
                                            "--no-mpi-threads-disable",
                                            "--mpi-args",
                                            "--tcp",
                                            "--binding-args",
                                            "--num-nccl-streams",
                                            "--thread-affinity",
                                            "--gloo-timeout-seconds",
                                            "--log-level",
                                            "--log-without-timestamp",
                                            "--log-with-timestamp",
                                            "--log-hide-timestamp",
                                            "--no-log-hide-timestamp",
                                            "-prefix-timestamp",
                                            "--prefix-output-with-timestamp",
                                            "-H",
                                            "--hosts",
                                            "-hostfile",
                                            "--hostfile",
                                            "--host-discovery-script",
                                            "--gloo",
                                            "--mpi",
                                            "--jsrun"};

// "--no-stall-check"
bool is_negated_flag_of_ours(std::string_view spelling) {
  constexpr std::string_view kPrefix = "--no-";
  if (spelling.substr(0, kPrefix.size()) != kPrefix) return false;
  const auto* option = find_option_by_name(spelling.substr(kPrefix.size()));
  return option != nullptr && option->kind == ValueKind::flag;
}

TEST(HorovodOptions, EveryOptionOfHorovodrunIsKnown) {
  for (const auto spelling : kHorovodrun)
    EXPECT_TRUE(find_option_by_spelling(spelling) || find_horovod_option(spelling) ||
                is_negated_flag_of_ours(spelling))
        << spelling;
}

TEST(HorovodOptions, TheStallCheckCanBeTurnedOffAndOn) {
  for (const auto& [word, value] :
       {std::pair("--stall-check", "true"), {"--no-stall-check", "false"}}) {
    const auto words = split_words({word, "prog"});
    ASSERT_TRUE(words) << word;
    ASSERT_EQ(words->options.size(), 1u) << word;
    EXPECT_EQ(words->options[0].option->name, "stall-check");
    EXPECT_EQ(words->options[0].value, value);
    EXPECT_THAT(words->notes, testing::IsEmpty());
  }
}

TEST(HorovodOptions, NoneIsOneOfOurs) {
  for (const auto& option : horovod_options())
    for (const auto spelling : option.spellings)
      EXPECT_EQ(find_option_by_spelling(spelling), nullptr) << spelling;
}

TEST(HorovodOptions, WhatMakesNoDifferenceIsAcceptedWithANote) {
  for (const auto& option : horovod_options()) {
    if (!option.accepted) continue;
    std::vector<std::string> args = {std::string(option.spellings[0])};
    if (option.takes_value) args.emplace_back("1");
    args.emplace_back("prog");
    const auto words = split_words(args);
    ASSERT_TRUE(words) << args[0];
    EXPECT_THAT(words->command, ElementsAre("prog"));
    EXPECT_THAT(words->notes, ElementsAre(HasSubstr(args[0] + " has no effect: ")));
  }
}

TEST(HorovodOptions, WhatWouldChangeTheJobIsRefused) {
  for (const auto& option : horovod_options()) {
    if (option.accepted) continue;
    for (const auto spelling : option.spellings) {
      if (spelling.empty()) continue;
      const auto words = split_words({std::string(spelling), "1", "prog"});
      ASSERT_FALSE(words) << spelling;
      EXPECT_FALSE(option.reason.empty()) << spelling;
      EXPECT_EQ(words.error().message,
                std::string(spelling) + " is an option of horovodrun that hvdrun does not have: " +
                    std::string(option.reason));
    }
  }
  EXPECT_EQ(split_words({"--slots-per-host", "2"}).error().message,
            "--slots-per-host is an option of horovodrun that hvdrun does not have: "
            "use --ranks-per-host K");
}

TEST(HorovodOptions, TheirValuesMayStandBehindTheEqualsSign) {
  EXPECT_THAT(split_words({"--log-level=INFO", "prog"})->command, ElementsAre("prog"));
  EXPECT_EQ(split_words({"--gloo=1", "prog"}).error().message, "--gloo takes no value");
  EXPECT_EQ(split_words({"--log-level"}).error().message, "--log-level needs a value (value)");
}

}  // namespace
}  // namespace hvdrun::cli
