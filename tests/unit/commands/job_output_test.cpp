#include "commands/job_output.hpp"

#include "../temporary_folder.hpp"

#include <ctime>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class JobOutputTest : public testing::Test {
 protected:
  JobOutputTest() {
    job.id = "12";
    job.number = 12;
    job.is_batch = true;
    job.work_dir = folder.path();
    job.std_out = "out.txt";
    set_state("PENDING");
  }
  void set_state(const std::string& state) {
    job.state = state;
    job.batch_host = state == "PENDING" ? "" : "n1";
    job.hosts = job.batch_host;
    job.start = std::time(nullptr);
    output.take(job);
  }
  void write(const std::string& text, std::ios::openmode mode = std::ios::trunc) const {
    std::ofstream(folder.path() / "out.txt", mode) << text;
  }
  std::string shown() { return output.files().at(0).tail.look(1000).bytes; }

  TemporaryFolder folder;
  JobRecord job;
  JobOutput output;
};

TEST_F(JobOutputTest, StartsWhenTheJobRuns) {
  EXPECT_THAT(output.files(), IsEmpty());
  set_state("RUNNING");
  ASSERT_EQ(output.files().size(), 1u);
  EXPECT_TRUE(output.may_appear());
  EXPECT_THAT(output.missing(), ElementsAre(HasSubstr("out.txt on n1, which is not visible")));
  write("one\n");
  EXPECT_EQ(shown(), "one\n");
  EXPECT_TRUE(output.all_appeared());
  EXPECT_THAT(output.missing(), IsEmpty());
}

TEST_F(JobOutputTest, SkipsAnEarlierJobsFileThatItSawBefore) {
  write("old\n");
  set_state("PENDING");
  set_state("RUNNING");
  EXPECT_EQ(shown(), "");
  write("new\n");
  EXPECT_EQ(shown(), "new\n");
}

TEST_F(JobOutputTest, ShowsOnlyTheNewPartOfAnAppendedFile) {
  write("old\n");
  set_state("PENDING");
  set_state("RUNNING");
  EXPECT_EQ(shown(), "");
  write("new\n", std::ios::app);
  EXPECT_EQ(shown(), "new\n");
  write("newer\n", std::ios::app);
  EXPECT_EQ(shown(), "newer\n");
}

TEST_F(JobOutputTest, ShowsAFileThatWasRewrittenLongerFromItsStart) {
  write("old\n");
  set_state("PENDING");
  set_state("RUNNING");
  write("a new one\n");
  EXPECT_EQ(shown(), "a new one\n");
}

TEST_F(JobOutputTest, ShowsTheOutputOfEarlierRunsOfARequeuedJob) {
  job.restarts = 1;
  write("first run\n");
  const auto hour_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(folder.path() / "out.txt", hour_ago);
  JobOutput late;
  late.take(job);
  set_state("RUNNING");
  late.take(job);
  EXPECT_EQ(late.files().at(0).tail.look(1000).bytes, "first run\n");
}

TEST_F(JobOutputTest, SkipsAFileThatIsOlderThanTheJob) {
  write("old\n");
  const auto hour_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(folder.path() / "out.txt", hour_ago);
  JobOutput late;
  set_state("RUNNING");
  late.take(job);
  EXPECT_EQ(late.files().at(0).tail.look(1000).bytes, "");
}

TEST_F(JobOutputTest, ShowsARunningJobsFileFromItsStart) {
  write("one\n");
  JobOutput late;
  set_state("RUNNING");
  late.take(job);
  EXPECT_EQ(late.files().at(0).tail.look(1000).bytes, "one\n");
}

TEST_F(JobOutputTest, JobThatNeverRanHasNoOutput) {
  job.state = "CANCELLED";
  output.take(job);
  EXPECT_THAT(output.files(), IsEmpty());
}

TEST_F(JobOutputTest, MayNotAppearInAMissingFolder) {
  job.std_out = "/no/such/folder/out.txt";
  set_state("RUNNING");
  EXPECT_FALSE(output.may_appear());
}

}  // namespace
}  // namespace hvdrun
