#include "cli/words.hpp"

#include <gmock/gmock.h>

namespace hvdrun::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Returns "name=value" of each option, in order.
std::vector<std::string> uses(const SplitWords& words) {
  std::vector<std::string> texts;
  for (const auto& use : words.options)
    texts.push_back(std::string(use.option->name) + "=" + use.value);
  return texts;
}

std::string error_of(const std::vector<std::string>& args) {
  const auto words = split_words(args);
  EXPECT_FALSE(words);
  if (words) return {};
  EXPECT_EQ(words.error().exit_code, kExitUsage);
  return words.error().message;
}

TEST(SplitWords, AcceptsEveryWayToGiveAValue) {
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"-np", "4"}, {"-np=4"}, {"-np4"}, {"--np", "4"}, {"--np=4"}, {"--num-proc", "4"}})
    EXPECT_THAT(uses(split_words(args).value()), ElementsAre("num-proc=4")) << args[0];
  EXPECT_THAT(uses(split_words({"-Hlocalhost:2"}).value()), ElementsAre("hosts=localhost:2"));
  EXPECT_THAT(uses(split_words({"-xA=1"}).value()), ElementsAre("x=A=1"));
  EXPECT_THAT(uses(split_words({"-x=A=1"}).value()), ElementsAre("x=A=1"));
  EXPECT_THAT(uses(split_words({"--label=a=b"}).value()), ElementsAre("label=a=b"));
  EXPECT_THAT(uses(split_words({"--label", "[{rank},{host}]"}).value()),
              ElementsAre("label=[{rank},{host}]"));
  EXPECT_THAT(uses(split_words({"--label="}).value()), ElementsAre("label="));
}

TEST(SplitWords, AcceptsFlagsAndTheirOpposites) {
  const auto words =
      split_words({"--oversubscribe", "-prefix-timestamp", "--no-json", "--verbose", "--verbose"});
  EXPECT_THAT(uses(words.value()),
              ElementsAre("oversubscribe=true", "prefix-output-with-timestamp=true", "json=false",
                          "verbose=1", "verbose=1"));
}

TEST(SplitWords, DoesNotChangeTheProgramsArguments) {
  const auto words = split_words(
      {"-np", "2", "python3", "train.py", "-np", "8", "--help", "--", "-x", "A=1", "--nonsense"});
  EXPECT_THAT(uses(words.value()), ElementsAre("num-proc=2"));
  EXPECT_THAT(words->command, ElementsAre("python3", "train.py", "-np", "8", "--help", "--", "-x",
                                          "A=1", "--nonsense"));
  EXPECT_EQ(words->action, nullptr);
}

TEST(SplitWords, OptionXDoesNotConsumeTheProgram) {
  const auto words = split_words({"-x", "A=1", "-x", "B", "prog", "arg"});
  EXPECT_THAT(uses(words.value()), ElementsAre("x=A=1", "x=B"));
  EXPECT_THAT(words->command, ElementsAre("prog", "arg"));
}

TEST(SplitWords, OptionsEndAtTwoDashes) {
  EXPECT_THAT(split_words({"-np", "2", "--", "--odd-name", "--"})->command,
              ElementsAre("--odd-name", "--"));
  EXPECT_THAT(split_words({"--"})->command, IsEmpty());
  EXPECT_THAT(split_words({"--", "--"})->command, ElementsAre("--"));
  EXPECT_THAT(split_words({"-"})->command, ElementsAre("-"));
  EXPECT_THAT(split_words({""})->command, ElementsAre(""));
}

TEST(SplitWords, RunAndTwoDashesAllowAProgramOfAnyName) {
  EXPECT_THAT(split_words({"run", "sbatch", "job"})->command, ElementsAre("sbatch", "job"));
  EXPECT_THAT(split_words({"run", "-np", "2", "run"})->command, ElementsAre("run"));
  EXPECT_THAT(split_words({"--", "jobs"})->command, ElementsAre("jobs"));
  EXPECT_THAT(split_words({"-np", "2", "cancel"})->command, ElementsAre("cancel"));
}

TEST(SplitWords, StopsAtAnAction) {
  const auto words = split_words({"-np", "2", "--help", "--nonsense"});
  ASSERT_TRUE(words);
  EXPECT_EQ(words->action, find_option_by_name("help"));
  EXPECT_EQ(split_words({"-cb"})->action, find_option_by_name("check-build"));
  EXPECT_EQ(split_words({"-v"})->action, find_option_by_name("version"));
  EXPECT_EQ(error_of({"--nonsense", "--help"}),
            "unknown option --nonsense; hvdrun --help lists all, and the program's own options "
            "follow its name");
}

TEST(SplitWords, ExplainParsesTheRest) {
  const auto words = split_words({"--explain", "-np", "2", "prog"});
  EXPECT_EQ(words->action, find_option_by_name("explain"));
  EXPECT_THAT(uses(*words), ElementsAre("num-proc=2"));
  EXPECT_THAT(words->command, ElementsAre("prog"));
}

TEST(SplitWords, SuggestsASimilarOption) {
  EXPECT_EQ(error_of({"--num-procs", "4"}), "unknown option --num-procs; did you mean --num-proc?");
  EXPECT_EQ(error_of({"--num-procs=4"}), "unknown option --num-procs; did you mean --num-proc?");
  EXPECT_EQ(error_of({"--colour", "never"}), "unknown option --colour; did you mean --color?");
  EXPECT_EQ(error_of({"--hots=a"}), "unknown option --hots; did you mean --hosts?");
  EXPECT_EQ(error_of({"--a\nb"}),
            "unknown option \"--a\\nb\"; hvdrun --help lists all, and the program's own options "
            "follow its name");
}

TEST(SplitWords, SuggestsNoDissimilarOption) {
  for (const auto* word : {"-y", "-y", "--logging", "--exporter"})
    EXPECT_EQ(error_of({word, "4"}),
              "unknown option " + std::string(word) +
                  "; hvdrun --help lists all, and the program's own options follow its name");
}

TEST(SplitWords, NamesTheCommandThatHasTheOption) {
  EXPECT_EQ(error_of({"--follow", "prog"}), "--follow is an option of hvdrun sbatch");
  EXPECT_EQ(error_of({"--conda", "env"}), "--conda is an option of hvdrun sbatch");
}

TEST(SplitWords, RefusesSeveralPrograms) {
  EXPECT_EQ(error_of({"-np", "1", "./a", ":", "-np", "1", "./b"})
                .find("hvdrun starts one program on all ranks, and not another one after \":\""),
            0u);
  EXPECT_EQ(error_of({"./a", "x", ":", "-n", "1", "./b"}).find("hvdrun starts one program"), 0u);
  EXPECT_TRUE(split_words({"-np", "1", "--", "./a", ":", "-np", "1", "./b"}));
  EXPECT_TRUE(split_words({"sh", "-c", ":"}));
  EXPECT_TRUE(split_words({"./a", ":", "word", "more"}));
}

TEST(SplitWords, KnowsWhetherTheProgramIsTheFirstWord) {
  EXPECT_FALSE(split_words({"prog"})->is_program_explicit);
  EXPECT_TRUE(split_words({"run", "prog"})->is_program_explicit);
  EXPECT_TRUE(split_words({"--", "prog"})->is_program_explicit);
  EXPECT_TRUE(split_words({"-np", "2", "prog"})->is_program_explicit);
}

TEST(SplitWords, OnlyFlagsHaveAnOpposite) {
  EXPECT_EQ(error_of({"--no-grace"}).find("unknown option --no-grace"), 0u);
  EXPECT_EQ(error_of({"--no-json=1"}).find("unknown option --no-json"), 0u);
}

TEST(SplitWords, SaysWhichValueIsMissing) {
  EXPECT_EQ(error_of({"-np"}), "-np needs a value (N)");
  EXPECT_EQ(error_of({"--grace", "--", "prog"}), "--grace needs a value (TIME) before --");
  EXPECT_EQ(error_of({"--output-filename", "--verbose", "prog"}),
            "--output-filename needs a value (DIR) before --verbose");
  EXPECT_THAT(uses(split_words({"--output-filename=--verbose"}).value()),
              ElementsAre("output-filename=--verbose"));
}

TEST(SplitWords, NegativeNumberIsAValue) {
  EXPECT_THAT(uses(split_words({"-np", "-1"}).value()), ElementsAre("num-proc=-1"));
}

TEST(SplitWords, RefusesAValueForAFlag) {
  EXPECT_EQ(error_of({"--oversubscribe=yes"}), "--oversubscribe takes no value");
  EXPECT_EQ(error_of({"--help=me"}), "--help takes no value");
}

TEST(SplitWords, AcceptsNoWords) {
  const auto words = split_words({});
  ASSERT_TRUE(words);
  EXPECT_THAT(words->command, IsEmpty());
}

TEST(SplitWords, SaysWhichOptionTookTheProgram) {
  const auto taken = [](const std::vector<std::string>& words) {
    return taken_last(split_words(words, run_options(), false)->options, words);
  };
  EXPECT_EQ(taken({"-np", "2", "--report", "./train"}), "; --report took ./train as its value");
  EXPECT_EQ(taken({"--report", "r.json", "-np", "2"}), "");
  EXPECT_EQ(taken({"--report=./train"}), "");
  EXPECT_EQ(taken({}), "");
}

}  // namespace
}  // namespace hvdrun::cli
