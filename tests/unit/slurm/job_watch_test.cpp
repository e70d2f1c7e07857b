#include "slurm/job_watch.hpp"

#include <cstdlib>
#include <ctime>

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::time_t kNow = 1795343136;  // 10:25:36 in UTC

JobRecord record(const std::string& id, const std::string& state) {
  JobRecord job;
  job.id = id;
  job.number = 12;
  job.state = state;
  job.reason = "None";
  job.elapsed = seconds(0);
  if (state != "PENDING") {
    job.hosts = "n[1-2]";
    job.start = kNow;
    job.elapsed = seconds(65);
  }
  return job;
}

JobRecord pending(const std::string& reason, std::time_t expected = 0) {
  auto job = record("12", "PENDING");
  job.reason = reason;
  if (expected != 0) job.start = expected;
  return job;
}

JobRecord ended(const std::string& state, ExitStatus exit, const std::string& id = "12") {
  auto job = record(id, state);
  job.exit = exit;
  return job;
}

class JobWatchTest : public testing::Test {
 protected:
  JobWatchTest() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
  JobWatch::Lines jobs(std::vector<JobRecord> records) {
    return watch.take({QueueAnswer::Kind::jobs, std::move(records), {}}, {kNow, clock});
  }
  JobWatch::Lines forgotten() {
    return watch.take({QueueAnswer::Kind::no_such_job, {}, {}}, {kNow, clock});
  }
  JobWatch::Lines no_answer() {
    return watch.take({QueueAnswer::Kind::no_answer, {}, "cannot connect"}, {kNow, clock});
  }

  JobWatch watch{{"12", 12, JobId::Kind::job}};
  JobWatch::Steady clock{};
};

TEST_F(JobWatchTest, DescribesThePartitionIfItIsTheReason) {
  std::vector<std::string> asked;
  watch = JobWatch({"12", 12, JobId::Kind::job}, [&asked](const std::string& partition) {
    asked.push_back(partition);
    return "partition " + partition + " has 4 nodes";
  });
  auto job = pending("PartitionConfig");
  job.partition = "gpu";
  EXPECT_THAT(
      jobs({job}),
      ElementsAre(testing::EndsWith("it never starts as it is; partition gpu has 4 nodes")));
  EXPECT_THAT(jobs({job}), IsEmpty());
  EXPECT_THAT(jobs({pending("Resources")}), ElementsAre(testing::EndsWith("to become free")));
  EXPECT_THAT(asked, ElementsAre("gpu"));
}

TEST_F(JobWatchTest, ReportsPendingRunningAndEnded) {
  EXPECT_THAT(jobs({pending("Priority", kNow + 7500)}),
              ElementsAre("job 12 is pending (Priority): others come first; SLURM expects it to "
                          "start at 12:30:36, in 2:05:00"));
  EXPECT_THAT(jobs({pending("Priority", kNow + 7510)}), IsEmpty());
  EXPECT_THAT(jobs({pending("Resources", kNow + 7510)}), ElementsAre(HasSubstr("(Resources)")));
  EXPECT_FALSE(watch.has_started());
  auto running = record("12", "RUNNING");
  running.limit = seconds(3600);
  EXPECT_THAT(jobs({running}),
              ElementsAre("job 12 runs on n[1-2] since 10:25:36, at most 1:00:00"));
  EXPECT_TRUE(watch.has_started());
  EXPECT_THAT(jobs({running}), IsEmpty());
  EXPECT_THAT(jobs({record("12", "COMPLETING")}), IsEmpty());
  EXPECT_FALSE(watch.end());
  EXPECT_THAT(jobs({ended("FAILED", {3, 0})}), IsEmpty());
  ASSERT_TRUE(watch.end());
  EXPECT_EQ(watch.end()->exit_code, 3);
  EXPECT_EQ(watch.end()->text, "job 12 failed with exit code 3 after 1:05");
}

TEST_F(JobWatchTest, ReportsAnExpectedStartWhenItChanges) {
  jobs({pending("Resources")});
  EXPECT_THAT(jobs({pending("Resources", kNow + 1000)}), ElementsAre(HasSubstr("in 16:40")));
  EXPECT_THAT(jobs({pending("Resources", kNow + 1050)}), IsEmpty());
  EXPECT_THAT(jobs({pending("Resources", kNow + 1200)}), ElementsAre(HasSubstr("in 20:00")));
  EXPECT_THAT(jobs({pending("Resources", kNow - 5)}), IsEmpty());
  EXPECT_THAT(jobs({pending("Priority", kNow + 365 * 86400)}),
              ElementsAre("job 12 is pending (Priority): others come first"));
}

TEST_F(JobWatchTest, FollowsARequeuedJob) {
  jobs({record("12", "RUNNING")});
  auto again = pending("BeginTime");
  again.restarts = 1;
  EXPECT_THAT(jobs({again}), ElementsAre("job 12 was put back into the queue, to be started again",
                                         HasSubstr("is pending (BeginTime)")));
  EXPECT_THAT(jobs({record("12", "RUNNING")}), ElementsAre(HasSubstr("runs on n[1-2]")));
  jobs({ended("COMPLETED", {0, 0})});
  EXPECT_EQ(watch.end()->exit_code, 0);
}

TEST_F(JobWatchTest, ReportsAJobThatHasAlreadyEnded) {
  EXPECT_THAT(jobs({ended("COMPLETED", {0, 0})}),
              ElementsAre("job 12 ran on n[1-2] from 10:25:36"));
  EXPECT_EQ(watch.end()->text, "job 12 succeeded after 1:05");
}

TEST_F(JobWatchTest, ReportsThatSlurmDoesNotAnswerAndAnswersAgain) {
  jobs({record("12", "RUNNING")});
  EXPECT_THAT(no_answer(), ElementsAre(HasSubstr("SLURM does not answer (cannot connect)")));
  EXPECT_THAT(no_answer(), IsEmpty());
  EXPECT_THAT(jobs({record("12", "RUNNING")}), ElementsAre("SLURM answers again"));
  EXPECT_FALSE(watch.end());
}

TEST_F(JobWatchTest, AsksTheAccountingForAJobThatLeftTheQueue) {
  jobs({record("12", "RUNNING")});
  forgotten();
  EXPECT_TRUE(watch.wants_accounting());
  watch.take_accounting(parse_accounting("12|TIMEOUT|0:15|01:00:03\n"));
  EXPECT_FALSE(watch.wants_accounting());
  EXPECT_EQ(watch.end()->exit_code, 124);
  EXPECT_EQ(watch.end()->text, "job 12 reached its time limit and was ended after 1:00:03");
}

TEST_F(JobWatchTest, ExitsWith125IfTheAccountingHasNoRecord) {
  jobs({record("12", "RUNNING")});
  forgotten();
  watch.take_accounting({});
  EXPECT_TRUE(watch.end()->known);
  EXPECT_EQ(watch.end()->exit_code, 125);
  EXPECT_THAT(watch.end()->text, HasSubstr("SLURM no longer knows how"));
}

TEST_F(JobWatchTest, UnknownJobIsNotKnown) {
  forgotten();
  watch.take_accounting({});
  EXPECT_FALSE(watch.end()->known);
}

TEST_F(JobWatchTest, PollsLessOftenOverTime) {
  jobs({pending("Resources")});
  EXPECT_EQ(watch.pause(clock), milliseconds(500));
  EXPECT_EQ(watch.pause(clock + seconds(20)), seconds(2));
  EXPECT_EQ(watch.pause(clock + seconds(1000)), seconds(5));
  clock += seconds(1000);
  jobs({record("12", "RUNNING")});
  EXPECT_EQ(watch.pause(clock), milliseconds(500));
}

TEST_F(JobWatchTest, HeterogeneousJobHasTheStateOfItsFirstPart) {
  EXPECT_THAT(jobs({record("12+1", "PENDING"), record("12+0", "RUNNING")}),
              ElementsAre(HasSubstr("runs on")));
  EXPECT_FALSE(watch.is_array());
}

TEST_F(JobWatchTest, ReportsAnArrayAsAWhole) {
  auto rest = record("12_[3-5%2]", "PENDING");
  rest.reason = "JobArrayTaskLimit";
  EXPECT_THAT(jobs({rest, record("12_1", "RUNNING"), record("12_2", "RUNNING")}),
              ElementsAre("job 12: 3 tasks wait (JobArrayTaskLimit), 2 tasks run",
                          HasSubstr("hvdrun follow 12_N")));
  EXPECT_TRUE(watch.is_array());
  rest.id = "12_[5]";
  EXPECT_THAT(jobs({rest, ended("FAILED", {7, 0}, "12_2"), ended("COMPLETED", {0, 0}, "12_1"),
                    record("12_3", "RUNNING"), record("12_4", "RUNNING")}),
              ElementsAre("job 12: 1 task waits (JobArrayTaskLimit), 2 tasks run, 2 tasks have "
                          "ended"));
  // SLURM no longer lists 12_1 and 12_4, the end of 12_4 was never seen, and 12_5 was cancelled.
  jobs({ended("CANCELLED", {0, 0}, "12_[5]"), ended("COMPLETED", {0, 0}, "12_3")});
  ASSERT_TRUE(watch.end());
  EXPECT_EQ(watch.end()->exit_code, 7);
  EXPECT_EQ(watch.end()->text,
            "job 12, an array: 2 tasks succeeded, 1 never ran, 2 did not; the first, 12_2, failed "
            "with exit code 7 after 1:05");
}

}  // namespace
}  // namespace hvdrun
