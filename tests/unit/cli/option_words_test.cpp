#include "cli/option_words.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun::cli {
namespace {

std::string answer(std::string_view spelling, bool has_scheduler = false) {
  return answer_by_words(spelling, run_options(), has_scheduler);
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
  EXPECT_EQ(answer("--servers", true), "; hvdrun finds the hosts of this job");
}

TEST(OptionWords, NameOptionsThatAUserWouldNotFind) {
  EXPECT_EQ(answer("--elastic"), "; for a job that continues without lost ranks: --min-np M");
  EXPECT_EQ(answer("--min-workers"), "; for the least ranks of an elastic job: --min-np M");
  EXPECT_EQ(answer("--max-procs"), "; for the most ranks of an elastic job: --max-np X");
  EXPECT_EQ(answer("--omp-num-threads"), "; for the threads of each rank: -x OMP_NUM_THREADS=K");
  EXPECT_EQ(answer("--memory"),
            "; for the memory of a batch job: hvdrun sbatch --mem SIZE; leave it out here");
}

TEST(OptionWords, ASlipIsNoOtherSubject) {
  EXPECT_TRUE(speaks_of_another("--gpus-per-rank", "--cpus-per-rank"));
  EXPECT_TRUE(speaks_of_another("--elastic", "--elastic-timeout"));
  EXPECT_FALSE(speaks_of_another("--cpu-per-rank", "--cpus-per-rank"));
  EXPECT_FALSE(speaks_of_another("--timelin", "--timeline-filename"));
  EXPECT_FALSE(speaks_of_another("--max-restart", "--max-restarts"));
}

TEST(OptionWords, FindOptionsThatHaveThemAll) {
  EXPECT_EQ(answer("--x"), "; did you mean -x?");
  EXPECT_EQ(answer("--stall-time"),
            "; did you mean --stall-check-warning-time-seconds or "
            "--stall-check-shutdown-time-seconds?");
  EXPECT_EQ(answer("--numa"), "; did you mean --bind-to?") << "a value of it";
  EXPECT_EQ(answer("--quux"), "");
  EXPECT_EQ(answer("-z"), "");
  EXPECT_EQ(answer("--num-max"), "");
}

TEST(OptionWords, AreThoseOfAProgramIfOneIsUnknown) {
  for (const auto* const word :
       {"--batch-size", "--log-interval", "--num-epochs", "--user-config", "--output-attentions"})
    EXPECT_EQ(answer(word), "") << word;
}

}  // namespace
}  // namespace hvdrun::cli
