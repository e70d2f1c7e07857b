#include "commands/jobs_table.hpp"

#include <cstdlib>
#include <ctime>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using std::chrono::seconds;

constexpr std::time_t kNow = 1795343136;  // 10:25:36 in UTC

class JobsTable : public testing::Test {
 protected:
  JobsTable() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
    running.id = "12";
    running.number = 12;
    running.state = "RUNNING";
    running.reason = "None";
    running.hosts = "n[1-4]";
    running.nodes = 4;
    running.elapsed = seconds(65);
    running.left = seconds(3535);
    running.limit = seconds(3600);
    running.start = kNow - 65;
    running.name = "train";
    running.command = "/home/user/train.sh --lr 0.1";
    waiting.id = "13_[1-100%2]";
    waiting.number = 13;
    waiting.state = "PENDING";
    waiting.reason = "Priority";
    waiting.nodes = 2;
    waiting.elapsed = seconds(0);
    waiting.start = kNow + 86400;
    waiting.name = "a\x1b[31m\nb";
  }
  JobRecord running;
  JobRecord waiting;
};

TEST_F(JobsTable, HasALinePerJob) {
  EXPECT_EQ(
      jobs_table({running, waiting}, kNow, 0),
      "JOB           NAME          STATE               NODES   ELAPSED  LEFT      START        "
      "        RUNS\n"
      "12            train         running             n[1-4]  1:05     58:55     10:24:31     "
      "        /home/user/train.sh --lr 0.1\n"
      "13_[1-100%2]  a\\x1b[31m\\nb  pending (Priority)  2       -        no limit  2026-11-23 "
      "10:25:36  a\\x1b[31m\\nb\n");
  EXPECT_EQ(jobs_table({}, kNow, 0), "");
}

TEST_F(JobsTable, HasAColumnForProgressIfThereIsSome) {
  const auto table = jobs_table({running, waiting}, kNow, 0, {"epoch 3/20", ""});
  EXPECT_THAT(table, testing::HasSubstr("PROGRESS    RUNS\n"));
  EXPECT_THAT(table, testing::HasSubstr("epoch 3/20  /home/user/train.sh"));
  EXPECT_THAT(table, testing::HasSubstr("-           a\\x1b"));
}

TEST_F(JobsTable, FitsTheTerminal) {
  running.command = "é" + std::string(300, 'x');
  const auto table = jobs_table({running}, kNow, 80);
  const auto line = table.substr(table.find('\n') + 1);
  EXPECT_EQ(line.size(), 80u + 1 + 2 + 1) << "a newline, é and … of more than one byte";
  EXPECT_TRUE(line.ends_with("x…\n")) << line;
}

TEST_F(JobsTable, JobBeyondItsLimitHasNoTimeLeft) {
  running.left.reset();
  EXPECT_THAT(jobs_table({running}, kNow, 0), testing::HasSubstr("  0:00  "));
}

TEST_F(JobsTable, IsAvailableAsJson) {
  running.name = "\xff";
  const auto json = nlohmann::json::parse(jobs_json({running, waiting}));
  EXPECT_EQ(json[0]["id"], "12");
  EXPECT_EQ(json[0]["left"], 3535);
  EXPECT_EQ(json[0]["start"], kNow - 65);
  EXPECT_TRUE(json[0]["reason"].is_null());
  EXPECT_TRUE(json[0]["exit_code"].is_null());
  EXPECT_EQ(json[0]["runs"], "/home/user/train.sh --lr 0.1");
  EXPECT_EQ(json[1]["name"], "a\x1b[31m\nb");
  EXPECT_EQ(json[1]["expected_start"], kNow + 86400);
  EXPECT_TRUE(json[1]["left"].is_null());
  EXPECT_EQ(jobs_json({}), "[]\n");
}

}  // namespace
}  // namespace hvdrun
