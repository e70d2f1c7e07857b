// Tests how far a job is, from the end of its output.
#include "commands/job_progress.hpp"

#include "../temporary_folder.hpp"

#include <fstream>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(JobProgress, IsTheNewestLineOfHvdrunAboutIt) {
  EXPECT_EQ(
      last_progress("hvdrun: note: epoch 1/3, step 5/30\n[0] x\n"
                    "hvdrun: note: epoch 2/3, step 12/30\nhvdrun: note: 2 ranks share a core\n"),
      "epoch 2/3, step 12/30");
  EXPECT_EQ(last_progress("hvdrun: note: step 5"), "step 5");
  EXPECT_EQ(last_progress("[0] hvdrun: note: step 5\n"), "") << "a rank's own words";
  EXPECT_EQ(last_progress(""), "");
}

TEST(JobProgress, IsReadFromTheFileOfARunningJob) {
  const TemporaryFolder folder;
  JobRecord job;
  job.state = "RUNNING";
  job.is_batch = true;
  job.std_out = folder.path() / "out";
  EXPECT_EQ(progress_of(job), "") << "there is no such file";
  std::ofstream(folder.path() / "out") << std::string(100'000, 'x') + "\nhvdrun: note: step 5\n";
  EXPECT_EQ(progress_of(job), "step 5");
  job.state = "PENDING";
  EXPECT_EQ(progress_of(job), "");
}

}  // namespace
}  // namespace hvdrun
