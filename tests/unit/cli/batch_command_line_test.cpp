#include "cli/batch_command_line.hpp"

#include "cli/batch_options.hpp"
#include "temporary_folder.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<BatchInvocation> parse(const std::vector<std::string>& args,
                              const std::vector<DefaultSetting>& defaults = {},
                              const std::string& config = "") {
  const TemporaryFolder folder;
  SystemPaths system_paths;
  system_paths.site_config_file = folder.path() / "config.json";
  if (!config.empty()) std::ofstream(system_paths.site_config_file) << config;
  return parse_batch_command_line(
      "sbatch", args, {},
      [&](const BatchSpec&) { return Result<std::vector<DefaultSetting>>(defaults); },
      system_paths);
}

std::string batch_error(const std::vector<std::string>& args) {
  const auto parsed = parse(args);
  return parsed ? "no error" : parsed.error().message;
}

std::string option_of(const BatchSpec& batch, const std::string& name) {
  for (const auto& option : batch.slurm_options)
    if (option.name == name) return option.value;
  return "(none)";
}

TEST(BatchCommandLine, ForwardsHvdrunsOptionsAsTyped) {
  const auto call =
      parse({"-np", "16", "--time", "2:00:00", "--label", "rank", "-x", "A=b c", "--nodes=4",
             "--no-oversubscribe", "--verbose", "--cpus-per-rank", "4", "--", "python3", "-np"});
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->job.ranks, 16);
  EXPECT_EQ(call->job.cpus_per_rank, 4);
  EXPECT_EQ(call->batch.nodes, 4);
  EXPECT_EQ(option_of(call->batch, "time"), "2:00:00");
  EXPECT_THAT(call->hvdrun_options,
              ElementsAre("--label", "rank", "-x", "A=b c", "--no-oversubscribe", "--verbose"));
  EXPECT_THAT(call->command, ElementsAre("python3", "-np"));
}

TEST(BatchCommandLine, RefusesOptionsThatMeanSomethingElseInSlurm) {
  EXPECT_THAT(batch_error({"-np", "2", "-x", "n1", "x"}), HasSubstr("--sbatch-arg=--exclude=n1"));
  EXPECT_THAT(batch_error({"-np", "2", "-xn[1-3]", "x"}),
              HasSubstr("--sbatch-arg=--exclude=n[1-3]"));
  EXPECT_THAT(batch_error({"-np", "2", "--exclude=n1", "x"}),
              HasSubstr("--exclude: SLURM chooses the hosts; use --sbatch-arg=--exclude=n1"));
  EXPECT_THAT(batch_error({"-np", "2", "--include", "n1", "x"}),
              HasSubstr("--sbatch-arg=--nodelist=n1"));
  EXPECT_THAT(batch_error({"-np", "2", "-i", "data", "x"}), HasSubstr("PROGRAM < FILE"));
  EXPECT_EQ(batch_error({"-np", "2", "-x", "A=1", "--env", "HOME", "x"}), "no error");
}

TEST(BatchCommandLine, TurnsRestartsIntoRequeuesWithRequeue) {
  EXPECT_THAT(parse({"-np", "2", "--max-restarts", "3", "x"})->hvdrun_options,
              ElementsAre("--max-restarts", "3"));
  const auto call = parse({"-np", "2", "--requeue", "--max-restarts", "3", "x"});
  EXPECT_THAT(call->hvdrun_options, IsEmpty());
  EXPECT_EQ(call->job.max_restarts, 3);
  EXPECT_TRUE(call->batch.requeue);
}

TEST(BatchCommandLine, LaterSourceOverridesAnEarlierOne) {
  const auto call = parse({"-np", "2", "--time", "20", "x"},
                          {{"gpus-per-node", "4", "t.sbatch:3"}, {"time", "5", "t.sbatch:4"}},
                          "{\"partition\": \"gpu\", \"time\": \"10\", \"gpus-per-node\": 8,\n"
                          " \"module\": [\"gcc/8\", \"cuda\"], \"set\": {\"a\": \"b\"}}");
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(option_of(call->batch, "partition"), "gpu");
  EXPECT_EQ(option_of(call->batch, "time"), "20");
  EXPECT_EQ(call->batch.gpus_per_node, 8);
  EXPECT_THAT(call->batch.modules, ElementsAre("gcc/8", "cuda"));
  ASSERT_EQ(call->batch.variables.size(), 1u);
  EXPECT_EQ(call->batch.variables[0].value, "b");
}

TEST(BatchCommandLine, RefusesUnknownOptionsAndInvalidValuesOfTemplates) {
  EXPECT_EQ(parse({"-np", "2", "x"}, {{"gpus", "4", "t.sbatch:3"}}).error().message,
            "t.sbatch:3: --gpus is not an option that a template can set");
  EXPECT_EQ(parse({"-np", "2", "x"}, {{"gpus-per-node", "many", "t.sbatch:3"}}).error().message,
            "t.sbatch:3: --gpus-per-node needs a whole number of 0 or more, not \"many\"");
}

TEST(BatchCommandLine, ReadsMailAndVariables) {
  const auto call = parse({"--mail", "a@b", "--set", "x=1=2", "--set", "y=", "p"});
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(option_of(call->batch, "mail-user"), "a@b");
  EXPECT_EQ(option_of(call->batch, "mail-type"), "END,FAIL");
  EXPECT_EQ(call->batch.variables[0].value, "1=2");
  EXPECT_EQ(call->batch.variables[1].value, "");
  EXPECT_EQ(option_of(parse({"--mail", "a@b:ALL", "p"})->batch, "mail-type"), "ALL");
}

TEST(BatchCommandLine, RefusesInvalidValues) {
  EXPECT_EQ(batch_error({"--time", "2h", "x"}),
            "--time needs SLURM's kind of time, such as 90 (minutes), 1:30:00 or 2-12:00:00, not "
            "\"2h\"");
  EXPECT_EQ(batch_error({"--job-name", "a\nb", "x"}),
            "--job-name must be one line of text, not \"a\\nb\"");
  EXPECT_EQ(batch_error({"--module", "-f", "x"}), "--module needs names of modules, not \"-f\"");
  EXPECT_EQ(batch_error({"--set", "x", "p"}), "--set needs NAME=VALUE, not \"x\"");
  EXPECT_EQ(batch_error({"--sbatch-arg", "v100", "x"}),
            "--sbatch-arg needs an option of sbatch, such as --constraint=v100, not \"v100\"");
  EXPECT_THAT(batch_error({"-H", "n1", "x"}), HasSubstr("-H: SLURM chooses the hosts"));
  EXPECT_EQ(batch_error({"--tiem", "3", "x"}), "unknown option --tiem; did you mean --time?");
}

TEST(BatchCommandLine, AFractionOfMemoryIsAnsweredInASmallerUnit) {
  const auto answer = [](const char* size) {
    const auto error = batch_error({"--mem", size, "x"});
    const auto at = error.find("; type ");
    return at == std::string::npos ? error : error.substr(at + 7);
  };
  EXPECT_EQ(answer("1.5T"), "1536G");
  EXPECT_EQ(answer("0.5g"), "512M");
  EXPECT_EQ(answer("2.0GB"), "2G");
  EXPECT_EQ(answer("0.3"), "308K");
  EXPECT_EQ(answer("1.2K"), "2K");
  EXPECT_EQ(answer("64GiB"), "64G") << "SLURM refuses it";
  EXPECT_EQ(answer("5X"), "--mem needs a whole number with K, M, G or T, such as 64G, not \"5X\"");
  for (const auto* wrong : {"", "G", "-1G", "64 G", "nan", "1.5X"})
    EXPECT_THAT(answer(wrong), HasSubstr("needs a whole number with K, M, G or T")) << wrong;
  for (const auto* right : {"0", "64", "64G", "64gb", "1t"})
    EXPECT_EQ(batch_error({"--mem", right, "x"}), "no error") << right;
}

TEST(BatchCommandLine, ATypeOfGpuIsAnsweredWithWhatTakesIt) {
  EXPECT_EQ(batch_error({"--gpus-per-node=a100:4", "x"}),
            "--gpus-per-node needs a number alone, not \"a100:4\": --gpus-per-node 4, and for the "
            "type --sbatch-arg=--gpus-per-node=a100:K, where K is how many the job needs of each "
            "node");
  EXPECT_THAT(batch_error({"--gpus-per-node=gpu:a100:4", "x"}),
              HasSubstr("--sbatch-arg=--gpus-per-node=a100:K"));
  EXPECT_EQ(batch_error({"--gpus-per-node=gpu:4", "x"}),
            "--gpus-per-node needs a number alone, not \"gpu:4\": --gpus-per-node 4");
  for (const auto* wrong : {"a100", "a100:", "a100:x"})
    EXPECT_THAT(batch_error({"--gpus-per-node", wrong, "x"}), HasSubstr("needs a whole number"));
}

TEST(BatchCommandLine, ARangeOfAnArrayMayNotEndBeforeItBegins) {
  EXPECT_EQ(batch_error({"--array=10-1", "x"}),
            "--array has \"10-1\", which ends before it begins: type 1-10");
  EXPECT_EQ(batch_error({"--array=1,9-3:2%4", "x"}),
            "--array has \"9-3:2\", which ends before it begins: type 3-9:2");
  EXPECT_EQ(batch_error({"--array=1-9:0", "x"}),
            "--array needs a step of 1 or more, not \"1-9:0\"");
  for (const auto* right : {"1-10", "3-3", "0-9:2%4", "1,3"})
    EXPECT_EQ(batch_error({"--array", right, "x"}), "no error") << right;
}

TEST(BatchCommandLine, NotesThatTwoNumbersOfATimeAreMinutesAndSeconds) {
  EXPECT_THAT(parse({"-t", "1:30", "x"})->notes,
              ElementsAre("-t 1:30 is minutes:seconds, 90 s in all; for hours: -t 1:30:00"));
  for (const auto* time : {"90", "1:30:00", "1-1:30", "UNLIMITED"})
    EXPECT_THAT(parse({"--time", time, "x"})->notes, IsEmpty()) << time;
}

TEST(BatchCommandLine, AcceptsTheTimeFormatsOfSlurm) {
  for (const auto* time : {"90", "1:30", "1:30:00", "2-12", "2-12:30", "2-12:30:00", "UNLIMITED"})
    EXPECT_EQ(batch_error({"--time", time, "x"}), "no error") << time;
  for (const auto* time : {"", "1:2:3:4", "-1", "1-", "1:", ":1", "1d", "1-2-3", "1000000000"})
    EXPECT_NE(batch_error({"--time", time, "x"}), "no error") << time;
}

TEST(BatchCommandLine, OtherCommandsIgnoreItsKeys) {
  const TemporaryFolder folder;
  SystemPaths system_paths;
  system_paths.site_config_file = folder.path() / "config.json";
  std::ofstream(system_paths.site_config_file) << "{\"partition\": \"gpu\", \"num-proc\": 2}";
  const auto call = parse_command_line({"true"}, {{"PATH", "/bin"}}, system_paths);
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->spec.ranks, 2);
}

TEST(BatchCommandLine, ShowsExplainAndHelp) {
  const auto explained = parse({"--explain", "--time", "5", "x"});
  EXPECT_EQ(explained->action, BatchInvocation::Action::explain);
  EXPECT_THAT(explained->text, testing::ContainsRegex("\n  time +5 +command line\n"));
  const auto help = parse({"--help"});
  EXPECT_EQ(help->action, BatchInvocation::Action::help);
  for (const auto& option : cli::batch_option_table())
    EXPECT_THAT(help->text, HasSubstr(std::string(option.spellings.front())));
}

}  // namespace
}  // namespace hvdrun
