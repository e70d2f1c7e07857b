#include "cli/foreign_options.hpp"

#include "cli/words.hpp"

#include <gmock/gmock.h>

namespace hvdrun::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Every option of horovodrun 0.28.1, from its launch.py.
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

// Returns whether it negates a flag of hvdrun, as "--no-stall-check" does.
bool is_negated_flag_of_hvdrun(std::string_view spelling) {
  constexpr std::string_view kPrefix = "--no-";
  if (spelling.substr(0, kPrefix.size()) != kPrefix) return false;
  const auto* option = find_option_by_name(spelling.substr(kPrefix.size()));
  return option != nullptr && option->kind == ValueKind::flag;
}

TEST(ForeignOptions, EveryOptionOfHorovodrunIsKnown) {
  for (const auto spelling : kHorovodrun)
    EXPECT_TRUE(find_option_by_spelling(spelling) || find_foreign_option(spelling) ||
                is_negated_flag_of_hvdrun(spelling))
        << spelling;
}

TEST(ForeignOptions, StallCheckCanBeTurnedOffAndOn) {
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

TEST(ForeignOptions, NoneIsAnOptionOfHvdrun) {
  for (const auto& option : foreign_options())
    for (const auto spelling : option.spellings)
      EXPECT_EQ(find_option_by_spelling(spelling), nullptr) << spelling;
}

const OptionSet& set_for(const ForeignOption& option) {
  return option.batch_only ? batch_options() : run_options();
}

TEST(ForeignOptions, OptionWithTheSameMeaningBecomesHvdruns) {
  for (const auto& option : foreign_options()) {
    if (option.kind != ForeignOption::Kind::same) continue;
    const auto* ours = find_option_by_spelling(option.text, set_for(option));
    ASSERT_NE(ours, nullptr) << option.text;
    EXPECT_TRUE(takes_value(*ours)) << option.text;
    for (const auto spelling : option.spellings) {
      if (spelling.empty()) continue;
      const auto words = split_words({std::string(spelling), "7", "prog"}, set_for(option));
      ASSERT_TRUE(words) << words.error().message;
      ASSERT_EQ(words->options.size(), 1u) << spelling;
      EXPECT_EQ(words->options[0].option, ours) << spelling;
      EXPECT_EQ(words->options[0].value, "7");
      EXPECT_THAT(words->command, ElementsAre("prog"));
    }
  }
}

TEST(ForeignOptions, OptionWithoutEffectIsAcceptedWithANote) {
  for (const auto& option : foreign_options()) {
    if (option.kind != ForeignOption::Kind::accepted) continue;
    std::vector<std::string> args = {std::string(option.spellings[0])};
    if (option.takes_value) args.emplace_back("1");
    args.emplace_back("prog");
    const auto words = split_words(args, set_for(option));
    ASSERT_TRUE(words) << args[0];
    EXPECT_THAT(words->command, ElementsAre("prog"));
    if (option.text.empty())
      EXPECT_THAT(words->notes, testing::IsEmpty());
    else
      EXPECT_THAT(words->notes, ElementsAre(HasSubstr(args[0] + " has no effect: ")));
  }
}

TEST(ForeignOptions, OptionThatWouldChangeTheJobIsRefused) {
  for (const auto& option : foreign_options()) {
    if (option.kind != ForeignOption::Kind::refused) continue;
    for (const auto spelling : option.spellings) {
      if (spelling.empty()) continue;
      const auto words = split_words({std::string(spelling), "1", "prog"}, set_for(option));
      ASSERT_FALSE(words) << spelling;
      EXPECT_FALSE(option.text.empty()) << spelling;
      EXPECT_EQ(words.error().message,
                std::string(spelling) + " is an option of " + std::string(option.of) +
                    " that hvdrun does not have: " + std::string(option.text));
    }
  }
  EXPECT_EQ(split_words({"--slots-per-host", "2"}).error().message,
            "--slots-per-host is an option of horovodrun that hvdrun does not have: "
            "use --ranks-per-host K");
}

TEST(ForeignOptions, SbatchHasOptionsOfItsOwn) {
  EXPECT_FALSE(split_words({"-e", "err", "prog"}));
  EXPECT_EQ(split_words({"-e", "err", "prog"}, batch_options())->options[0].option->name, "error");
  EXPECT_THAT(split_words({"-d", "afterok:7", "prog"}, batch_options())->options[0].option->name,
              "dependency");
  EXPECT_THAT(split_words({"-w", "n1", "prog"}, batch_options()).error().message,
              HasSubstr("--sbatch-arg=--nodelist"));
  EXPECT_THAT(split_words({"-w", "n1", "prog"}).error().message, HasSubstr("use -H"));
  EXPECT_EQ(split_words({"-p", "gpu", "prog"}, batch_options())->options[0].option->name,
            "partition");
  EXPECT_EQ(split_words({"-p", "22", "prog"})->options[0].option->name, "ssh-port");
}

TEST(ForeignOptions, UnderscoreIsADash) {
  EXPECT_EQ(split_words({"--num_proc=2", "prog"})->options[0].option->name, "num-proc");
  EXPECT_EQ(split_words({"--nproc_per_node", "2", "prog"})->options[0].option->name,
            "ranks-per-host");
}

TEST(ForeignOptions, ValueMayFollowAnEqualsSign) {
  EXPECT_THAT(split_words({"--log-level=INFO", "prog"})->command, ElementsAre("prog"));
  EXPECT_EQ(split_words({"--gloo=1", "prog"}).error().message, "--gloo takes no value");
  EXPECT_EQ(split_words({"--log-level"}).error().message, "--log-level needs a value (value)");
}

}  // namespace
}  // namespace hvdrun::cli
