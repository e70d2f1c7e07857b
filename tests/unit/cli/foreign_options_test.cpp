#include "cli/foreign_options.hpp"

#include "cli/words.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

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

std::string contents_of(const std::string& name) {
  std::stringstream text;
  text << std::ifstream(name).rdbuf();
  return text.str();
}

// Returns the spelling with an ending in place of the "*" of a family of options.
std::string typed(std::string_view spelling) {
  const auto star = spelling.find('*');
  if (star == std::string_view::npos) return std::string(spelling);
  return std::string(spelling.substr(0, star)) + "x";
}

// Calls `check` with each spelling of the options of this kind.
void for_each_spelling(ForeignOption::Kind kind,
                       const std::function<void(const ForeignOption&, const std::string&)>& check) {
  for (const auto& option : foreign_options())
    for (const auto spelling : option.spellings)
      if (option.kind == kind && !spelling.empty() &&
          find_foreign_option(typed(spelling), option.batch_only) == &option)
        check(option, typed(spelling));
}

TEST(ForeignOptions, OptionWithTheSameMeaningBecomesHvdruns) {
  for_each_spelling(ForeignOption::Kind::same, [](const auto& option, const auto& spelling) {
    const auto* ours = find_option_by_spelling(option.text, set_for(option));
    ASSERT_NE(ours, nullptr) << option.text;
    EXPECT_TRUE(takes_value(*ours)) << option.text;
    // A -c alone may mean mpirun's.
    const auto words =
        split_words({"-np", "1", std::string(spelling), "7", "prog"}, set_for(option));
    ASSERT_TRUE(words) << words.error().message;
    ASSERT_EQ(words->options.size(), 2u) << spelling;
    EXPECT_EQ(words->options[1].option, ours) << spelling;
    EXPECT_EQ(words->options[1].value, "7");
    EXPECT_THAT(words->command, ElementsAre("prog"));
  });
}

TEST(ForeignOptions, FlagBecomesHvdrunsOptionAndValue) {
  for_each_spelling(ForeignOption::Kind::flag, [](const auto& option, const auto& spelling) {
    const auto equals = option.text.find('=');
    const auto words = split_words({spelling, "prog"}, set_for(option));
    ASSERT_TRUE(words) << words.error().message;
    ASSERT_EQ(words->options.size(), 1u) << spelling;
    EXPECT_EQ(words->options[0].option, find_option_by_spelling(option.text.substr(0, equals)));
    EXPECT_EQ(words->options[0].value, option.text.substr(equals + 1));
  });
}

TEST(ForeignOptions, OptionWithoutEffectIsAcceptedWithANote) {
  for_each_spelling(ForeignOption::Kind::accepted, [](const auto& option, const auto& spelling) {
    std::vector<std::string> args = {spelling};
    if (option.takes_value) args.emplace_back("1");
    args.emplace_back("prog");
    const auto words = split_words(args, set_for(option));
    ASSERT_TRUE(words) << args[0];
    EXPECT_THAT(words->command, ElementsAre("prog"));
    if (option.text.empty())
      EXPECT_THAT(words->notes, testing::IsEmpty());
    else
      EXPECT_THAT(words->notes, ElementsAre(HasSubstr(args[0] + " has no effect: ")));
  });
}

TEST(ForeignOptions, OptionThatWouldChangeTheJobIsRefused) {
  for_each_spelling(ForeignOption::Kind::refused, [](const auto& option, const auto& spelling) {
    const auto words = split_words({spelling, "1", "prog"}, set_for(option));
    ASSERT_FALSE(words) << spelling;
    EXPECT_FALSE(option.text.empty()) << spelling;
    EXPECT_EQ(words.error().message, spelling + " is an option of " + std::string(option.of) +
                                         " that hvdrun does not have: " + std::string(option.text));
  });
  EXPECT_EQ(split_words({"--slots-per-host", "2"}).error().message,
            "--slots-per-host is an option of horovodrun that hvdrun does not have: "
            "use --ranks-per-host K");
}

// Options of elastic jobs are on Horovod's page.
TEST(ForeignOptions, TheirPageListsEachSpelling) {
  constexpr std::string_view kElsewhere[] = {
      "--host-discovery-script", "--min-np",
      "--min-num-proc",          "--max-np",
      "--max-num-proc",          "--elastic-timeout",
      "--reset-limit",           "--blacklist-cooldown-range"};
  const auto page = contents_of(HVD_SOURCE_DIR "/docs/reference/other-launchers.md");
  for (const auto& option : foreign_options())
    for (const auto spelling : option.spellings) {
      const bool elsewhere =
          std::find(std::begin(kElsewhere), std::end(kElsewhere), spelling) != std::end(kElsewhere);
      const auto name = spelling.substr(0, spelling.find('*'));
      // With one dash or two.
      const auto bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
      const bool listed = page.find("`-" + std::string(bare)) != std::string::npos ||
                          page.find("`--" + std::string(bare)) != std::string::npos;
      EXPECT_TRUE(spelling.empty() || elsewhere || listed) << spelling;
    }
}

TEST(ForeignOptions, OneDashMeansTwo) {
  EXPECT_EQ(split_words({"-bind-to", "core", "prog"})->options[0].option->name, "bind-to");
  EXPECT_EQ(split_words({"-iface", "lo", "prog"})->options[0].option->name, "network-interface");
  EXPECT_THAT(split_words({"-pernode", "prog"})->options[0].value, "1");
  EXPECT_THAT(split_words({"-print-rank-map", "prog"})->options[0].option->name, "report-bindings");
  EXPECT_THAT(split_words({"-info"}).error().message, HasSubstr("use hvdrun --check-build"));
  EXPECT_THAT(split_words({"-xml", "prog"}).error().message, HasSubstr("--report FILE.json"));
}

TEST(ForeignOptions, NumberMayFollowALetter) {
  EXPECT_EQ(split_words({"-n2", "prog"})->options[0].value, "2");
  EXPECT_EQ(split_words({"-n2", "-c3", "prog"})->options[1].value, "3");
  EXPECT_EQ(split_words({"-p22", "-i/k/id", "prog"})->options[1].value, "/k/id");
  EXPECT_THAT(split_words({"-N2", "prog"}).error().message, HasSubstr("use --nnodes N"));
  EXPECT_THAT(split_words({"-pgpu", "prog"}).error().message, HasSubstr("unknown option -pgpu"));
  EXPECT_EQ(split_words({"-pgpu", "prog"}, batch_options())->options[0].value, "gpu");
}

TEST(ForeignOptions, AnAmbiguousLetterIsRefused) {
  EXPECT_THAT(split_words({"-c", "2", "prog"}).error().message,
              HasSubstr("use -np 2 or --cpus-per-rank 2"));
  EXPECT_TRUE(split_words({"-c", "2", "-np", "2", "prog"}));
  EXPECT_TRUE(split_words({"-c", "2", "prog"}, batch_options()));
  EXPECT_THAT(split_words({"-m", "cyclic", "prog"}).error().message, HasSubstr("--map-by"));
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
