#include "cli/option_words.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun::cli {
namespace {

std::string answer(std::string_view spelling, bool in_slurm_job = false) {
  return answer_by_words(spelling, run_options(), in_slurm_job);
}

TEST(OptionWords, AreInLowerCaseAndTheSingular) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_of_option("--num_ranks"), (Words{"num", "rank"}));
  EXPECT_EQ(words_of_option("--ranksPerNode"), (Words{"rank", "per", "node"}));
  EXPECT_EQ(words_of_option("--nranks"), Words{"rank"});
  EXPECT_EQ(words_of_option("--processes"), Words{"process"});
  EXPECT_EQ(words_of_option("--network"), Words{"network"});
  EXPECT_EQ(words_of_option("---"), Words{});
}

TEST(OptionWords, NameTheOptionForTheirSubject) {
  for (const auto* const word : {"--num-workers", "--nprocs", "--processes", "--tasks_per_rs",
                                 "--num-ranks", "--size", "--n-tasks"})
    EXPECT_EQ(answer(word), "; for ranks: -np N") << word;
  for (const auto* const word : {"--ppn", "--ranks-per-node", "--procs_per_machine"})
    EXPECT_EQ(answer(word), "; for ranks on each host: --ranks-per-host K") << word;
  EXPECT_EQ(answer("--cpu_per_rs"), "; for the cores of each rank: --cpus-per-rank K");
  EXPECT_EQ(answer("--retries"), "; for new starts after a failure: --max-restarts R");
}

TEST(OptionWords, DoNotNameHostsInASlurmJob) {
  EXPECT_EQ(answer("--servers"), "; for hosts: -H HOST,HOST or --hostfile FILE");
  EXPECT_EQ(answer("--servers", true), "; hvdrun finds the hosts of a SLURM job");
}

TEST(OptionWords, FindOptionsThatHaveThemAll) {
  EXPECT_EQ(answer("--stall-time"),
            "; did you mean --stall-check-warning-time-seconds or "
            "--stall-check-shutdown-time-seconds?");
  EXPECT_EQ(answer("--numa"), "; did you mean --bind-to?") << "a value of it";
  EXPECT_EQ(answer("--quux"), "");
  EXPECT_EQ(answer("-z"), "");
  EXPECT_EQ(answer("--num-max"), "");
}

TEST(OptionWords, AreThoseOfAProgramIfOneIsUnknown) {
  for (const auto* const word : {"--batch-size", "--log-interval", "--num-epochs", "--user-config",
                                 "--omp-num-threads", "--output-attentions"})
    EXPECT_EQ(answer(word), "") << word;
}

}  // namespace
}  // namespace hvdrun::cli
