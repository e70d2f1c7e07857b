// Which SLURM job `hvdrun top`, `logs` and `why` look into, and how they are started on its host.
#include "commands/look_into_job.hpp"

#include "commands/on_first_host.hpp"
#include "example_job.hpp"

#include <algorithm>

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;

std::string answer_for(const std::vector<JobRecord>& jobs, std::optional<std::string> name) {
  const auto chosen = choose_slurm_job(jobs, {.word = "top", .job = std::move(name)}, 1000);
  if (chosen) return "job " + chosen->id;
  EXPECT_EQ(chosen.error().exit_code, kExitUsage);
  return chosen.error().message;
}

TEST(ChooseSlurmJob, TheOneThatRunsIsMeant) {
  EXPECT_EQ(answer_for({slurm_job("7", 7, "RUNNING")}, {}), "job 7");
  EXPECT_EQ(answer_for({slurm_job("7_1", 8, "COMPLETED"), slurm_job("7_2", 9, "RUNNING"),
                        slurm_job("7_[3]", 7, "PENDING")},
                       "7"),
            "job 7_2");
}

TEST(ChooseSlurmJob, TheMessageSaysWhyAJobCannotBeLookedInto) {
  EXPECT_EQ(answer_for({slurm_job("7_1", 8, "RUNNING"), slurm_job("7_2", 9, "RUNNING")}, "7"),
            "2 jobs of yours run in SLURM; name one, such as hvdrun top 7_1:\n"
            "  7_1      n[1-2]  train\n"
            "  7_2      n[1-2]  train");
  auto waits = slurm_job("7", 7, "PENDING");
  waits.reason = "Resources";
  EXPECT_EQ(answer_for({waits}, "7"),
            "job 7 does not run yet: pending (Resources): waits for hosts to become free; hvdrun "
            "follow 7 shows when it starts");
  EXPECT_EQ(answer_for({slurm_job("7", 7, "OUT_OF_MEMORY")}, "7"),
            "job 7 has ended (out of memory); hvdrun follow 7 shows how");
  EXPECT_EQ(answer_for({slurm_job("7", 7, "RUNNING", 1001)}, "7"),
            "SLURM's job 7 is other's, and only other can look into it");
  EXPECT_EQ(answer_for({}, "7"), "SLURM knows no such job");
}

TEST(FirstHostCommand, TakesNothingFromTheJobAndNamesItsHost) {
  const HostCommand command{"7_2", "9", "n1", {"logs", "--rank", "1", "9"}, false};
  const auto words = first_host_command(command, "/opt/hvd/bin/hvdrun");
  for (const char* word :
       {"--jobid=9", "--nodelist=n1", "--overlap", "--mem=0", "--gres=none", "--input=none"})
    EXPECT_EQ(std::ranges::count(words, word), 1) << word;
  EXPECT_EQ((std::vector(words.end() - 6, words.end())),
            (std::vector<std::string>{"sh", "/opt/hvd/bin/hvdrun", "logs", "--rank", "1", "9"}));
  auto draws = command;
  draws.draws = true;
  EXPECT_EQ(std::ranges::count(first_host_command(draws, "hvdrun"), "--pty"), 1);
}

}  // namespace
}  // namespace hvdrun
