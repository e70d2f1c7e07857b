#include "commands/sbatch_line.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Returns the answer to `hvdrun sbatch WORDS`.
std::string line(const std::vector<std::string>& words) {
  const auto split = cli::split_words(words, cli::batch_options());
  return split ? sbatch_line(split->options, split->command) : split.error().message;
}

TEST(SbatchLine, HasTheScriptAndItsArguments) {
  EXPECT_EQ(line({"./job.sh", "a b"}), "sbatch ./job.sh 'a b'");
}

TEST(SbatchLine, KeepsWhatSbatchHasOfTheOptions) {
  EXPECT_EQ(line({"-np", "4", "-t", "5", "-N2", "--sbatch-arg=--nice", "--requeue", "--label",
                  "rank", "job.sh"}),
            "sbatch --ntasks=4 --time=5 --nodes=2 --nice --requeue job.sh");
  EXPECT_EQ(line({"--mail", "a@b:ALL", "--cpus-per-rank", "3", "job.sh"}),
            "sbatch --mail-user=a@b --cpus-per-task=3 job.sh");
}

TEST(SbatchLine, TakesOptionsForTheSubmissionAfterTheScript) {
  EXPECT_EQ(line({"job.sh", "--follow"}), "sbatch job.sh; then hvdrun follow");
  EXPECT_EQ(line({"--follow", "job.sh"}), "sbatch job.sh; then hvdrun follow");
  EXPECT_EQ(line({"job.sh", "1", "--submit", "--wait"}), "sbatch --wait job.sh 1");
}

}  // namespace
}  // namespace hvdrun
