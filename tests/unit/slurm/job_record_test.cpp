#include "slurm/job_record.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using std::chrono::seconds;

using testing::Eq;
using testing::Optional;

// Returns a line of squeue. In `text`, "|" separates the fields.
std::string line(std::string text) {
  for (char& c : text)
    if (c == '|') c = '\x1f';
  return text + "\x1e\n";
}

// Printed by squeue 22.05.
constexpr const char* kPendingArray =
    "4_[3-10%2]|4|1000|PENDING|0|1|0:00|1:00:00|1:00:00|1795343136|N/A|0|1|all||n/a|user|"
    "JobArrayTaskLimit|/home/user|/home/user/slurm-4.out|/home/user/slurm-4.out|/home/user/s.sh|"
    "(null)|s.sh";
constexpr const char* kFailed =
    "1|1|1000|FAILED|768|1|0:03|364-23:59:57|365-00:00:00|1795343136|1795343136|0|1|all|n1|n1|user|"
    "NonZeroExitCode|/home/user|/home/user/out-%j-%x.txt|/home/user/out-%j-%x.txt|"
    "/home/user/s.sh a b c|(null)|odd \"name\" x=y";

TEST(JobRecord, HoldsTheFieldsOfSqueue) {
  const auto jobs = parse_jobs(line(kPendingArray) + line(kFailed));
  ASSERT_EQ(jobs.size(), 2u);
  const auto& pending = jobs[0];
  EXPECT_EQ(pending.id, "4_[3-10%2]");
  EXPECT_EQ(pending.number, 4u);
  EXPECT_EQ(pending.uid, 1000u);
  EXPECT_EQ(pending.state, "PENDING");
  EXPECT_THAT(pending.left, Optional(seconds(3600)));
  EXPECT_THAT(pending.start, Eq(std::nullopt));
  EXPECT_EQ(pending.hosts, "");
  EXPECT_EQ(pending.batch_host, "");
  EXPECT_EQ(pending.reason, "JobArrayTaskLimit");
  EXPECT_TRUE(pending.is_batch);
  const auto& failed = jobs[1];
  EXPECT_THAT(failed.exit, Optional(ExitStatus{3, 0}));
  EXPECT_THAT(failed.start, Optional(1795343136));
  EXPECT_THAT(failed.elapsed, Optional(seconds(3)));
  EXPECT_THAT(failed.limit, Eq(std::nullopt)) << "365 days mean no limit";
  EXPECT_THAT(failed.left, Eq(std::nullopt));
  EXPECT_EQ(failed.hosts, "n1");
  EXPECT_EQ(failed.std_out, "/home/user/out-%j-%x.txt");
  EXPECT_EQ(failed.command, "/home/user/s.sh a b c");
  EXPECT_EQ(failed.comment, "");
  EXPECT_EQ(failed.name, "odd \"name\" x=y");
}

TEST(JobRecord, NamesMayHoldAnything) {
  const std::string odd = "a b\n7 JobState=COMPLETED\t,;'\"\\%j \xff";
  std::string text = line(kFailed);
  text.replace(text.find("odd"), 14, odd);
  const auto jobs = parse_jobs(text + line(kPendingArray));
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name, odd);
  EXPECT_EQ(jobs[0].state, "FAILED");
}

TEST(JobRecord, SeparatorInANameDoesNotAffectOtherJobs) {
  std::string text = line(kFailed);
  text.replace(text.find("odd"), 14,
               "a\x1e\n7\x1f"
               "8");
  const auto jobs = parse_jobs(text + line(kPendingArray));
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name, "a");
  EXPECT_EQ(jobs[1].id, "4_[3-10%2]");
}

TEST(JobRecord, IgnoresLinesBeforeTheFirstRecord) {
  EXPECT_EQ(parse_jobs("CLUSTER: main\n" + line(kFailed)).size(), 1u);
  EXPECT_EQ(parse_jobs("CLUSTER: main\n").size(), 0u);
  EXPECT_EQ(parse_jobs("").size(), 0u);
  EXPECT_EQ(parse_jobs("\x1e\x1e\n\x1f\x1f").size(), 0u);
}

TEST(JobRecord, ReadsTenThousandJobs) {
  std::string text;
  for (int i = 1; i <= 10'000; ++i) {
    std::string one = kFailed;
    one.replace(0, 3, fmt::format("{}|{}", i, i));
    text += line(one);
  }
  const auto jobs = parse_jobs(text);
  ASSERT_EQ(jobs.size(), 10'000u);
  EXPECT_EQ(jobs.back().id, "10000");
}

TEST(JobRecord, SqueueIsAskedForEveryFieldInOrder) {
  const auto command = squeue_command();
  ASSERT_EQ(command.size(), 4u);
  EXPECT_THAT(command[3],
              testing::StartsWith("--Format=JobArrayID:0\x1f,JobID:0\x1f,UserID:0\x1f"));
  EXPECT_THAT(command[3], testing::EndsWith(",Name:0\x1e"));
}

TEST(JobRecord, ReadsExitStatuses) {
  EXPECT_THAT(parse_exit_status("0"), Optional(ExitStatus{0, 0}));
  EXPECT_THAT(parse_exit_status("768"), Optional(ExitStatus{3, 0}));
  EXPECT_THAT(parse_exit_status("15"), Optional(ExitStatus{0, 15}));
  EXPECT_THAT(parse_exit_status("0:15"), Optional(ExitStatus{0, 15}));
  EXPECT_THAT(parse_exit_status("3:0"), Optional(ExitStatus{3, 0}));
  for (const char* text : {"", "-2", "x", "1:", ":1", "1:x", "-1:0", "99999999999"})
    EXPECT_THAT(parse_exit_status(text), Eq(std::nullopt)) << text;
}

TEST(JobRecord, NamesTheProgramThatItRuns) {
  JobRecord job;
  job.name = "sbatch";
  EXPECT_EQ(what_it_runs(job), "sbatch");
  job.command = "/home/user/s.sh a";
  job.comment = "for the paper";
  EXPECT_EQ(what_it_runs(job), "/home/user/s.sh a");
  job.comment = "hvdrun: ./train --lr 0.1";
  EXPECT_EQ(what_it_runs(job), "./train --lr 0.1");
}

TEST(QueueAnswer, DistinguishesAnUnknownJobFromNoAnswer) {
  using Kind = QueueAnswer::Kind;
  EXPECT_EQ(read_answer({1, false, "", "slurm_load_jobs error: Invalid job id specified\n"}).kind,
            Kind::no_such_job);
  EXPECT_EQ(read_answer({0, false, "", ""}).kind, Kind::no_such_job);
  for (const char* said :
       {"slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
        "slurm_load_jobs error: Socket timed out on send/recv operation\n", ""})
    EXPECT_EQ(read_answer({1, false, "", said}).kind, Kind::no_answer) << said;
  EXPECT_EQ(read_answer({137, true, "", ""}).complaint, "no answer in time");
}

}  // namespace
}  // namespace hvdrun
