#include "../temporary_folder.hpp"
#include "report/failures.hpp"
#include "report/host_table.hpp"
#include "report/quantities.hpp"
#include "report/report_json.hpp"
#include "report/report_text.hpp"
#include "report/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

RankReport rank_report(int rank) {
  RankReport report;
  report.placement.rank = rank;
  report.host = "n1";
  report.pid = 100 + rank;
  report.exited = true;
  report.seconds = 2.5;
  return report;
}

Report failed_job() {
  Report report;
  for (int rank = 0; rank < 4; ++rank) report.ranks.push_back(rank_report(rank));
  for (const int other : {0, 1, 3}) {
    report.ranks[static_cast<std::size_t>(other)].stopped_by_us = true;
    report.ranks[static_cast<std::size_t>(other)].signal = SIGTERM;
  }
  auto& first_failure = report.ranks[2];
  first_failure.exit_code = 3;
  first_failure.placement.device_name = "GPU 2 (NVIDIA V100)";
  first_failure.last_stderr = {"Traceback", "ValueError: \xff"};
  first_failure.in_collective = "allreduce grad.3";
  report.first_failure = 2;
  report.exit_code = 3;
  report.wall_seconds = 2.6;
  return report;
}

TEST(ReportText, NamesTheFirstFailureWithItsLastLinesAndFoldsTheOthers) {
  EXPECT_EQ(report_lines(failed_job()),
            (std::vector<std::string>{
                "ranks 0-1,3: stopped by hvdrun", "job stopped after 2.60 s; exit code 3",
                "error: rank 2 on n1 failed: exit code 3 (pid 102, GPU 2 (NVIDIA V100), after "
                "2.50 s)",
                "  it was in allreduce grad.3", "  its last lines on stderr:", "  | Traceback",
                "  | ValueError: \xff"}));
}

TEST(ReportText, DoesNotRepeatWhatTheTerminalShows) {
  auto report = failed_job();
  auto& rank = report.ranks[2];
  rank.stderr_in_sight = true;
  auto lines = report_lines(report);
  EXPECT_EQ(lines.back(), "  it was in allreduce grad.3");
  EXPECT_EQ(lines[lines.size() - 2],
            "error: rank 2 on n1 failed: exit code 3 (pid 102, GPU 2 (NVIDIA V100), after 2.50 s); "
            "its last lines on stderr are above");
  rank.failure.text = "Traceback\nKeyError: 7";  // Python has not printed this
  EXPECT_EQ(report_lines(report).back(), "  | KeyError: 7");
  rank.last_stderr.push_back("KeyError: 7");
  EXPECT_EQ(report_lines(report).back(), "  it was in allreduce grad.3");
}

TEST(ReportText, ShowsTheCauseBelowALongTraceback) {
  auto report = failed_job();
  report.ranks[2].failure.text =
      "Traceback\n" + std::string(100, '\n') + "InternalError: in a graph";
  report.ranks[2].last_error = "rank 1 has left";
  const auto lines = report_lines(report);
  const auto at = std::find(lines.begin(), lines.end(), "  | InternalError: in a graph");
  ASSERT_NE(at, lines.end());
  EXPECT_EQ(*(at + 1), "  its last error of hvd: rank 1 has left");
}

TEST(ReportText, RanksThatFailedForAConnectionAreOneLine) {
  auto report = failed_job();
  for (const int other : {1, 3}) {
    auto& rank = report.ranks[static_cast<std::size_t>(other)];
    rank.last_stderr = {"Traceback (most recent call last):", "  File \"t.py\", line 3", "    f()",
                        "RuntimeError: Connection closed by peer :" + std::to_string(other)};
  }
  report.ranks[1].stopped_by_us = false;
  report.ranks[1].exit_code = 1;
  const auto lines = report_lines(report);
  EXPECT_EQ(
      lines[0],
      "ranks 1,3 then failed for a lost connection: RuntimeError: Connection closed by peer :1");
  EXPECT_EQ(lines[1], "rank 0: stopped by hvdrun");
}

TEST(ReportText, SaysWhichRanksWereLostWithTheirAgent) {
  auto report = failed_job();
  report.ranks[1].exited = report.ranks[3].exited = false;
  EXPECT_THAT(report_lines(report),
              Contains("ranks 1,3: lost with the agent of the host, which has "
                       "not reported how they ended"));
}

constexpr const char* kTraceback =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 3, in <module>\n"
    "ValueError: bad batch\n";

TEST(ReportText, QuotesTheReportedExceptionAndFoldsTheOthers) {
  auto report = failed_job();
  report.ranks[2].failure.text = kTraceback;
  report.ranks[2].last_error = "bad batch";  // a part of the text
  report.ranks[0] = rank_report(0);
  report.ranks[0].failure.text = kTraceback;
  report.ranks[1].failure = {true, "Error: rank 2 has left", true, true, 0};
  report.ranks[3] = rank_report(3);
  report.ranks[3].failure.text = "Traceback (most recent call last):\n  File\nKeyError: 'a\nb'\n";
  EXPECT_EQ(report_lines(report),
            (std::vector<std::string>{
                "rank 0 raised the same", "rank 3: KeyError: 'a", "rank 1: stopped by hvdrun",
                "job stopped after 2.60 s; exit code 3",
                "error: rank 2 on n1 failed: exit code 3 (pid 102, GPU 2 (NVIDIA V100), after "
                "2.50 s)",
                "  it was in allreduce grad.3", "  | Traceback (most recent call last):",
                "  |   File \"train.py\", line 3, in <module>", "  | ValueError: bad batch"}));
  const auto json = nlohmann::json::parse(report_json(report))["ranks"];
  EXPECT_EQ(json[2]["failure"]["text"], kTraceback);
  EXPECT_EQ(json[1]["failure"]["because_of_peer"], true);
  EXPECT_EQ(
      in_short(report).failures,
      (std::vector<std::string>{
          "  | Traceback (most recent call last):", "  |   File \"train.py\", line 3, in <module>",
          "  | ValueError: bad batch", "rank 0 raised the same", "rank 3: KeyError: 'a"}));
}

TEST(ReportText, FoldsRanksThatPrintedTheSameException) {
  Report report;
  for (int rank = 0; rank < 8; ++rank) report.ranks.push_back(rank_report(rank));
  report.first_failure = 2;
  report.exit_code = 1;
  const std::vector<std::string> printed{
      "Traceback (most recent call last):", "  File \"train.py\", line 3, in <module>",
      "ValueError: bad batch"};
  for (auto& rank : report.ranks) {
    rank.last_stderr = printed;
    rank.exit_code = 1;
  }
  report.ranks[0].exit_code = 0;  // it has caught the same
  for (auto& line : report.ranks[1].last_stderr) line.insert(0, "[rank1]: ");
  report.ranks[3].last_stderr.back() = "KeyError: 'a'";
  report.ranks[4].exit_code = 3;
  report.ranks[5].last_stderr.emplace_back("went on, and failed for another reason");
  report.ranks[6].stopped_by_us = true;  // it may have caught it
  report.ranks[6].signal = SIGTERM;
  EXPECT_EQ(report_lines(report)[0], "ranks 1,7 raised the same");
}

TEST(ReportText, ARankThatSucceededAfterALostConnectionHasNotFailed) {
  Report report;
  report.ranks.push_back(rank_report(0));
  report.ranks[0].last_stderr = {"Traceback (most recent call last):", "  File \"t.py\", line 3",
                                 "ConnectionResetError: Connection reset by peer"};
  for (const auto& line : report_lines(report)) EXPECT_THAT(line, Not(HasSubstr("failed")));
}

TEST(ReportText, ListsSomeExceptionsAndFoldsTheRest) {
  Report report;
  for (int rank = 0; rank < 12; ++rank) {
    report.ranks.push_back(rank_report(rank));
    report.ranks.back().exit_code = 1;
    report.ranks.back().failure.text = "E: " + std::to_string(rank);
  }
  report.first_failure = 0;
  report.exit_code = 1;
  const auto lines = report_lines(report);
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines[0], "rank 1: E: 1");
  EXPECT_EQ(lines[7], "rank 8: E: 8");
  EXPECT_EQ(lines[8], "ranks 9-11: other failures");
  EXPECT_EQ(lines[11], "  | E: 0");
}

TEST(ExceptionLine, IsThatOfTheLastTracebackOfAChain) {
  EXPECT_EQ(exception_line(kTraceback), "ValueError: bad batch");
  EXPECT_EQ(exception_line("Traceback (most recent call last):\n  File\nOSError: disk\n\n"
                           "During handling of the above exception, another exception occurred:\n\n"
                           "Traceback (most recent call last):\n  File\n"
                           "  [... 7 lines, 300 bytes left out ...]\n"
                           "ValueError: two\nlines\n"),
            "ValueError: two");
  EXPECT_EQ(exception_line("  + Exception Group Traceback (most recent call last):\n"
                           "  |   File \"x\", line 1, in <module>\n"
                           "  | ExceptionGroup: several (2 sub-exceptions)\n"
                           "  +-+---------------- 1 ----------------\n"
                           "    | ValueError: 1\n    +------------------------------------\n"),
            "ExceptionGroup: several (2 sub-exceptions)");
  EXPECT_EQ(exception_line("no room\nfor the model\n\n"), "for the model");
  EXPECT_EQ(exception_line(std::string(298, 'x') + "\xe2\x82\xac and more"),
            std::string(298, 'x') + " …");
  EXPECT_EQ(exception_line(""), "");
}

TEST(ReportText, IsOneLineAfterASuccess) {
  Report report;
  report.ranks = {rank_report(0), rank_report(1)};
  report.ranks[1].peak_memory_bytes = 45'000'000;
  report.ranks[1].user_seconds = 1.5;
  report.wall_seconds = 1.83;
  EXPECT_EQ(report_lines(report),
            std::vector<std::string>{
                "2 ranks succeeded in 1.83 s (CPU 1.50 s, peak memory of a rank 45 MB)"});
}

// Returns the report that Job makes from the reports of its attempts.
Report with_attempts(const std::vector<Report>& attempts) {
  Report report = attempts.back();
  report.wall_seconds = 0;
  for (const auto& each : attempts) {
    report.attempts.push_back(in_short(each));
    report.wall_seconds += each.wall_seconds;
  }
  return report;
}

Report good_job() {
  Report report;
  report.ranks = {rank_report(0), rank_report(1)};
  report.ranks[1].user_seconds = 1.5;
  report.wall_seconds = 1.83;
  return report;
}

Report lost_agent() {
  Report report;
  report.ranks = {rank_report(0)};
  report.ranks[0].stopped_by_us = true;
  report.ranks[0].peak_memory_bytes = 45'000'000;
  report.ranks[0].system_seconds = 0.25;
  report.reason = "the agent on n1 was lost";
  report.exit_code = 125;
  report.wall_seconds = 1;
  return report;
}

constexpr const char* kFirstFailure =
    "rank 2 on n1 failed: exit code 3 (pid 102, GPU 2 (NVIDIA V100), after 2.50 s)";

TEST(ReportText, ListsTheRestartsBeforeASuccess) {
  EXPECT_EQ(report_lines(with_attempts({failed_job(), lost_agent(), good_job()})),
            (std::vector<std::string>{
                "2 ranks succeeded in 5.43 s with 2 restarts (CPU 1.75 s, peak memory of a rank "
                "45 MB)",
                std::string("  first start: ") + kFirstFailure,
                "  restart 1: the agent on n1 was lost"}));
}

TEST(ReportText, ListsTheEarlierAttemptsAfterAFailure) {
  EXPECT_EQ(report_lines(with_attempts({failed_job(), lost_agent()})),
            (std::vector<std::string>{
                "rank 0: stopped by hvdrun",
                "error: job stopped after 3.60 s with 1 restart: the agent on n1 was lost; exit "
                "code 125",
                std::string("  first start: ") + kFirstFailure}));
}

TEST(ReportText, SaysWhyThereWasNoFurtherAttempt) {
  auto report = with_attempts({failed_job()});
  report.not_restarted = "interrupted";
  report.exit_code = 130;
  const auto lines = report_lines(report);
  ASSERT_GE(lines.size(), 4u);
  EXPECT_EQ(lines[1], "not started again: interrupted");
  EXPECT_EQ(lines[2], "job stopped after 2.60 s; exit code 130");
  EXPECT_EQ(lines[3], std::string("error: ") + kFirstFailure);
}

Report on_hosts(int hosts) {
  Report report;
  for (int rank = 0; rank < 2 * hosts; ++rank) {
    report.ranks.push_back(rank_report(rank));
    report.ranks.back().host = "n" + std::to_string(rank / 2 + 1);
    report.ranks.back().seconds = 60.0 * rank;
    report.ranks.back().user_seconds = rank;
    report.ranks.back().peak_memory_bytes = 1'000'000u * static_cast<unsigned>(rank);
  }
  report.wall_seconds = 200;
  return report;
}

TEST(ReportText, HasATableOfHosts) {
  const auto lines = report_lines(on_hosts(2));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1], "  HOST  RANKS  TIME       CPU     CORES  MEMORY");
  EXPECT_EQ(lines[2], "  n1    0-1    1 min 0 s  1.00 s  0.0    1 MB");
  EXPECT_EQ(lines[3], "  n2    2-3    3 min 0 s  5.00 s  0.0    3 MB");
}

TEST(ReportText, WarnsOfPossiblySeparateRunsWithAdvice) {
  auto report = on_hosts(1);
  report.may_be_separate_runs = true;
  const std::string said =
      "warning: no rank was seen to join another one (by hvd.init, MPI_Init, torch.distributed or "
      "any TCP "
      "connection): these may have been 2 separate runs of the program; ";
  EXPECT_EQ(report_lines(report).back(), said + "see FRAMEWORKS in hvdrun(1)");
  report.lacks_tf_config = true;
  EXPECT_EQ(report_lines(report).back(),
            said +
                "the ranks had no TF_CONFIG, which TensorFlow's MultiWorkerMirroredStrategy "
                "reads: --for tensorflow sets it");
  report.rank_drove_all_gpus = true;
  EXPECT_EQ(report_lines(report).back(),
            said +
                "a rank used all GPUs of its host by itself, so start it with "
                "--ranks-per-host 1");
}

// Sets the counters as a rank with libhvd does.
void let_wait(RankReport& rank, double seconds) {
  rank.counters.joined = true;
  rank.counters.waiting_seconds = seconds;
  rank.counters.collective_seconds = 2 * seconds;
}

GpuUse gpu(const std::string& uuid, std::optional<double> busy_percent,
           std::optional<std::uint64_t> peak_memory_bytes) {
  GpuUse use;
  use.uuid = uuid;
  use.samples = 5;
  use.busy_percent = busy_percent;
  use.peak_memory_bytes = peak_memory_bytes;
  return use;
}

TEST(ReportText, HasColumnsForTheValuesOfLibhvdAndNvml) {
  auto report = on_hosts(2);
  for (auto& rank : report.ranks) rank.seconds = 100;
  let_wait(report.ranks[0], 20);
  let_wait(report.ranks[1], 30);
  report.gpus = {{"n1", {gpu("GPU-1", 80, 2'000'000'000), gpu("GPU-2", 90, 31'000'000'000)}}};
  const auto lines = report_lines(report);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(
      lines[1],
      "  HOST  RANKS  TIME        CPU     CORES  MEMORY  COLLECTIVES  WAITING  GPU   GPU MEMORY");
  EXPECT_EQ(
      lines[2],
      "  n1    0-1    1 min 40 s  1.00 s  0.0    1 MB    50 %         25 %     85 %  31.0 GB");
  EXPECT_EQ(lines[3],
            "  n2    2-3    1 min 40 s  5.00 s  0.1    3 MB    -            -        -     -");
}

TEST(ReportText, HasALineForOneHostWithLibhvd) {
  auto report = on_hosts(1);
  for (auto& rank : report.ranks) rank.seconds = 10;
  let_wait(report.ranks[0], 1);
  let_wait(report.ranks[1], 0.5);
  report.gpus = {{"n1", {gpu("MIG-1", std::nullopt, 2'000'000'000)}}};
  const auto lines = report_lines(report);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1],
            "  on n1: 0.1 cores busy, 15 % of the time in collectives, 8 % waiting for the slowest "
            "rank, 1 GPU, peak memory of one 2.0 GB");
}

// Returns every value that NVML has for a GPU. It was at its power cap in a third of 30 samples.
GpuUse whole_gpu(const std::string& uuid) {
  auto use = gpu(uuid, 85, 31'000'000'000);
  use.samples = 30;
  use.peak_celsius = 71;
  use.mean_watts = 612.4;
  use.peak_watts = 700;
  use.throttling.emplace();
  use.throttling->samples = 30;
  use.throttling->seen[static_cast<std::size_t>(ThrottleReason::power_cap)] = 10;
  return use;
}

void throttle(GpuUse& use, ThrottleReason reason, std::uint64_t samples) {
  use.throttling->seen[static_cast<std::size_t>(reason)] = samples;
}

TEST(ReportText, DescribesGpusInOneLine) {
  auto report = on_hosts(1);
  for (auto& rank : report.ranks) rank.seconds = 10;
  report.ranks[1].peak_gpu_memory_bytes = 30'200'000'000;
  report.gpus = {{"n1", {whole_gpu("GPU-1")}}};
  const std::string_view gpus =
      "  on n1: 1 GPU 85 % busy, peak memory of one 31.0 GB (30.2 GB of a rank), up to 71 °C, 612 "
      "W";
  EXPECT_EQ(report_lines(report).back(), std::string(gpus) + ", throttled: power cap 33 %");
  report.gpus[0].gpus[0].throttling->seen = {};
  EXPECT_EQ(report_lines(report).back(), gpus) << "no throttling";
  report.gpus[0].gpus.push_back(whole_gpu("GPU-2"));
  report.gpus[0].gpus[1].mean_watts = 600;
  report.gpus[0].gpus[1].peak_celsius = 68;
  report.gpus[0].gpus[1].peak_memory_bytes.reset();
  EXPECT_EQ(report_lines(report).back(),
            "  on n1: 2 GPUs 85 % busy, peak memory of one 31.0 GB (30.2 GB of a rank), up to 71 "
            "°C, 606 W each, throttled: power cap 17 %");
  report.gpus[0].gpus = {gpu("GPU-1", std::nullopt, std::nullopt)};
  report.ranks[1].peak_gpu_memory_bytes.reset();
  EXPECT_EQ(report_lines(report).size(), 1u) << "a GPU without any value has no line";
}

TEST(ReportText, HasColumnsForTemperaturePowerAndThrottling) {
  auto report = on_hosts(2);
  for (auto& rank : report.ranks) rank.seconds = 10;
  report.ranks[0].peak_gpu_memory_bytes = 30'000'000'000;
  report.gpus = {{"n1", {whole_gpu("GPU-1")}}};
  const auto lines = report_lines(report);
  ASSERT_EQ(lines.size(), 4u);
  const auto line = [](std::string_view common, std::string_view gpus) {
    return std::string(common) + std::string(gpus);
  };
  EXPECT_EQ(lines[1], line("  HOST  RANKS  TIME     CPU     CORES  MEMORY  ",
                           "GPU   GPU MEMORY  OF A RANK  TEMP   POWER  THROTTLED"));
  EXPECT_EQ(lines[2], line("  n1    0-1    10.00 s  1.00 s  0.1    1 MB    ",
                           "85 %  31.0 GB     30.0 GB    71 °C  612 W  power cap 33 %"));
  EXPECT_EQ(lines[3], line("  n2    2-3    10.00 s  5.00 s  0.5    3 MB    ",
                           "-     -           -          -      -      -"));
}

TEST(ReportText, WarnsOfAGpuThatHeatOrPowerThrottled) {
  auto report = on_hosts(1);
  report.gpus = {{"n1", {whole_gpu("GPU-1")}}};
  auto& use = report.gpus[0].gpus[0];
  const auto warning = [&report] {
    const auto lines = report_lines(report);
    return lines.back().starts_with("warning: ") ? lines.back() : "";
  };
  throttle(use, ThrottleReason::power_cap, 30);
  throttle(use, ThrottleReason::hardware, 30);
  throttle(use, ThrottleReason::hardware_thermal, 2);
  EXPECT_EQ(warning(), "") << "below 10 % of the samples";
  throttle(use, ThrottleReason::hardware_thermal, 3);
  EXPECT_EQ(warning(),
            "warning: GPU-1 on n1 was throttled: HW thermal slowdown in 10 % of the samples, up to "
            "71 °C");
  use.device = "GPU 0 (NVIDIA H200, 0000:3b:00.0)";
  use.peak_celsius.reset();
  throttle(use, ThrottleReason::software_thermal, 6);
  EXPECT_EQ(
      warning(),
      "warning: GPU 0 (NVIDIA H200, 0000:3b:00.0) on n1 was throttled: SW thermal slowdown in "
      "20 % of the samples");

  auto other = whole_gpu("GPU-2");
  throttle(other, ThrottleReason::power_brake, 15);
  report.gpus.push_back({"n2", {other}});
  EXPECT_EQ(
      warning(),
      "warning: GPU-2 on n2 was throttled: HW power brake slowdown in 50 % of the samples, up "
      "to 71 °C; so was 1 other GPU (--report FILE has all)");
  report.gpus.push_back({"n3", {use, use}});
  EXPECT_NE(warning().find("; so were 3 other GPUs ("), std::string::npos);
}

TEST(ReportText, WarnsOfThrottledGpusAfterAFailureAndForEachAttempt) {
  auto report = failed_job();
  report.gpus = {{"n1", {whole_gpu("GPU-1")}}};
  throttle(report.gpus[0].gpus[0], ThrottleReason::hardware_thermal, 30);
  const std::string warning =
      "warning: GPU-1 on n1 was throttled: HW thermal slowdown in 100 % of the samples, up to 71 "
      "°C";
  const auto lines = report_lines(report);
  EXPECT_NE(std::find(lines.begin(), lines.end(), warning), lines.end());
  EXPECT_EQ(in_short(report).failures.back(), warning);
}

TEST(Stragglers, AreTheRanksThatOthersWaitFor) {
  auto report = on_hosts(2);
  for (auto& rank : report.ranks) rank.seconds = 100;
  for (const std::size_t rank : {0u, 1u, 3u}) let_wait(report.ranks[rank], 30);
  let_wait(report.ranks[2], 0.2);
  const auto found = find_stragglers(report.ranks);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ranks, std::vector{2});
  EXPECT_EQ(describe_stragglers(*found, report.ranks),
            "rank 2 on n2 is slow: others have waited 30.00 s in collectives (30 % of their time), "
            "it 0.20 s");
  EXPECT_EQ(report_lines(report).back(), "  " + describe_stragglers(*found, report.ranks));
}

TEST(Stragglers, MayBeAllRanksOfAHost) {
  auto report = on_hosts(2);
  for (auto& rank : report.ranks) rank.seconds = 100;
  for (const std::size_t rank : {0u, 1u}) let_wait(report.ranks[rank], 30);
  for (const std::size_t rank : {2u, 3u}) let_wait(report.ranks[rank], 1);
  const auto found = find_stragglers(report.ranks);
  ASSERT_TRUE(found);
  EXPECT_EQ(describe_stragglers(*found, report.ranks),
            "ranks 2-3 on n2 are slow: others have waited 30.00 s in collectives (30 % of their "
            "time), they at most 1.00 s");
}

TEST(Stragglers, AreNoRanksThatCameLate) {
  auto report = on_hosts(2);
  for (auto& rank : report.ranks) rank.seconds = 100;
  for (const std::size_t rank : {0u, 1u}) let_wait(report.ranks[rank], 30);
  let_wait(report.ranks[2], 3);
  report.ranks[2].seconds_with_others = 10;  // it waited as much of its time
  let_wait(report.ranks[3], 0);
  report.ranks[3].never_joined = true;
  EXPECT_FALSE(find_stragglers(report.ranks));
  EXPECT_TRUE(report_lines(report).front().starts_with("3 ranks succeeded"));
  report.ranks[2].seconds_with_others = 90;
  EXPECT_EQ(find_stragglers(report.ranks)->ranks, std::vector{2});
}

TEST(Stragglers, AreNotBlamedForWaitsBeforeTheyJoined) {
  auto report = on_hosts(1);
  for (auto& rank : report.ranks) rank.seconds = 100;
  let_wait(report.ranks[0], 30);
  let_wait(report.ranks[1], 0.5);
  report.ranks[1].seconds_with_others = 60;  // another rank hung in the 40 s before that
  EXPECT_FALSE(find_stragglers(report.ranks));
  report.waits = {{"allreduce grad", 20, {0}, {1}, "…"}};
  const auto found = find_stragglers(report.ranks, report.waits);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ranks, std::vector{1});
  EXPECT_EQ(found->missed, "allreduce grad");
  EXPECT_EQ(found->others_waiting_seconds, 20);
}

TEST(Stragglers, AreStuckIfTheyNeverReachedTheCollective) {
  auto report = on_hosts(2);
  for (auto& rank : report.ranks) rank.seconds = 100;
  for (const std::size_t rank : {0u, 1u, 3u}) let_wait(report.ranks[rank], 30);
  let_wait(report.ranks[2], 0.2);
  report.waits = {{"allreduce grad", 20, {0, 1, 3}, {2}, "…"}};
  const auto found = find_stragglers(report.ranks, report.waits);
  ASSERT_TRUE(found);
  EXPECT_EQ(describe_stragglers(*found, report.ranks),
            "rank 2 on n2 was stuck: it never reached allreduce grad, in which others waited");
  report.waits.front().seconds = 10;  // others had waited longer before that
  EXPECT_EQ(find_stragglers(report.ranks, report.waits)->missed, "");
  report.waits.front() = {"allreduce grad", 20, {0, 1}, {3}, "…"};
  EXPECT_EQ(find_stragglers(report.ranks, report.waits)->missed, "");
}

Report interrupted(int ranks) {
  Report report;
  report.exit_code = 130;
  report.reason = "interrupted";
  for (int rank = 0; rank < ranks; ++rank) {
    report.ranks.push_back(rank_report(rank));
    report.ranks.back().host = "n1";
    report.ranks.back().stopped_by_us = true;
    report.ranks.back().at_stop = {100 + rank, "python3", "futex", 8.1, 0.25};
  }
  return report;
}

TEST(ReportText, SaysWhatEachRankDidWhenInterrupted) {
  auto report = interrupted(2);
  report.ranks[1].at_stop = {101, "train", "computing", 8.1, 7.5};
  const auto lines = report_lines(report);
  EXPECT_THAT(lines, Contains("rank 0 on n1 had run 8.10 s (CPU 0.25 s), in the system call "
                              "futex: python3, pid 100"));
  EXPECT_THAT(lines, Contains("rank 1 on n1 had run 8.10 s (CPU 7.50 s), computing: train, "
                              "pid 101"));
  constexpr auto kAdvice =
      "if it hung: next time, before Ctrl-C, type hvdrun why in another terminal, or Ctrl-\\ here";
  EXPECT_THAT(lines, Contains(kAdvice));
  report.hang.emplace();
  EXPECT_THAT(report_lines(report), Not(Contains(kAdvice)));
}

TEST(ReportText, ShowsTheExceptionAfterWhichARankHung) {
  auto report = interrupted(3);
  report.ranks[0].last_stderr = {"loading"};
  report.ranks[1].last_stderr = {
      "Traceback (most recent call last):", "  File \"a.py\", line 3, in f",
      "    raise RuntimeError(\"rank 1 is unhappy\")", "RuntimeError: rank 1 is unhappy"};
  report.ranks[2].last_stderr = report.ranks[1].last_stderr;
  report.ranks[2].last_stderr.emplace_back("caught; continuing");
  const auto lines = report_lines(report);
  EXPECT_THAT(lines,
              Contains("rank 1 had printed an exception, and may have waited in its exit for "
                       "others: RuntimeError: rank 1 is unhappy"));
  EXPECT_THAT(lines,
              Contains("a program with mpi4py ends all ranks in such a case if it is started "
                       "by python3 -m mpi4py"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("rank 0 had printed"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("rank 2 had printed"))));
  report.ranks[1].last_stderr.back() = "KeyboardInterrupt";
  EXPECT_THAT(report_lines(report), Not(Contains(HasSubstr("rank 1 had printed"))))
      << "it is from hvdrun's SIGINT";
}

TEST(ReportText, FoldsTheStatesOfManyRanks) {
  auto report = interrupted(9);
  report.ranks[4].at_stop->system_call = "";
  const auto lines = report_lines(report);
  EXPECT_THAT(lines, Contains("ranks 0-3,5-8 had run 8.10 s (CPU at most 0.25 s), in the "
                              "system call futex"));
  EXPECT_THAT(lines, Contains("rank 4 had run 8.10 s (CPU 0.25 s)"));
}

TEST(ReportText, OmitsTheStatesOfRanksInAShortJobOrWithLibhvd) {
  auto report = interrupted(1);
  report.ranks[0].at_stop->seconds = 1;
  EXPECT_THAT(report_lines(report), Not(Contains(HasSubstr("had run"))));
  report = interrupted(1);
  report.ranks[0].counters.joined = true;
  EXPECT_THAT(report_lines(report), Not(Contains(HasSubstr("had run"))));
}

struct NoStragglers {
  const char* why;
  double seconds;
  std::vector<double> waiting;
};

TEST(Stragglers, AreNotReportedBelowTheLimits) {
  for (const auto& [why, seconds, waiting] : std::vector<NoStragglers>{
           {"one rank", 100, {30}},
           {"no rank waits", 100, {0, 0, 0}},
           {"all ranks wait equally", 100, {30, 28, 31}},
           {"in turn", 100, {30, 12, 31}},
           {"less than a second", 3, {0.9, 0, 0.9}},
           {"less than a tenth", 100, {9, 0, 9}},
       }) {
    std::vector<RankReport> ranks;
    for (const double each : waiting) {
      ranks.push_back(rank_report(static_cast<int>(ranks.size())));
      ranks.back().seconds = seconds;
      let_wait(ranks.back(), each);
    }
    EXPECT_FALSE(find_stragglers(ranks)) << why;
  }
}

TEST(Stragglers, AreOnlyRanksThatUseLibhvd) {
  std::vector<RankReport> ranks{rank_report(0), rank_report(1), rank_report(2)};
  for (auto& rank : ranks) rank.seconds = 100;
  let_wait(ranks[1], 30);
  let_wait(ranks[2], 0);
  const auto found = find_stragglers(ranks);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ranks, std::vector{2});
}

TEST(ReportText, HasDashesForALostHost) {
  auto report = on_hosts(2);
  report.ranks[2].exited = report.ranks[3].exited = false;
  const auto lines = report_lines(report);
  EXPECT_NE(std::find(lines.begin(), lines.end(), "  n2    2-3    -          -       -      -"),
            lines.end())
      << lines[2];
}

TEST(ReportText, ListsOnlyTheFirstOfManyHosts) {
  const auto lines = report_lines(on_hosts(40));
  ASSERT_EQ(lines.size(), 19u);
  EXPECT_EQ(lines.back(), "  and 24 more hosts (--report FILE has all)");
}

TEST(ReportText, HasNoTableWhereNoRankHasStarted) {
  auto report = on_hosts(2);
  for (auto& rank : report.ranks) rank.pid = 0;
  report.exit_code = 125;
  EXPECT_EQ(report_lines(report),
            (std::vector<std::string>{"ranks 0-3: never started",
                                      "error: job stopped after 3 min 20 s; exit code 125"}));
}

TEST(ReportText, SaysHowARankEnded) {
  auto rank = rank_report(0);
  rank.signal = SIGKILL;
  rank.out_of_memory = true;
  EXPECT_EQ(describe_end(rank), "killed by SIGKILL, out of memory (the kernel's OOM killer)");
  rank = rank_report(0);
  rank.exit_code = 137;
  rank.out_of_memory = true;
  EXPECT_EQ(describe_end(rank),
            "exit code 137; out of memory: the kernel's OOM killer killed a process there");
  rank = rank_report(0);
  rank.signal = SIGBUS;
  rank.dev_shm_is_full = true;
  EXPECT_EQ(describe_end(rank), "killed by SIGBUS, /dev/shm is full (in a container: --shm-size)");
  rank = rank_report(0);
  rank.signal = SIGSEGV;
  rank.core_dumped = true;
  EXPECT_EQ(describe_end(rank), "killed by SIGSEGV, core dumped");
  rank = rank_report(0);
  rank.abort_code = 7;
  EXPECT_EQ(describe_end(rank), "called MPI_Abort or PMIx_Abort with code 7");
  rank = rank_report(0);
  rank.lost_connection = true;
  EXPECT_EQ(describe_end(rank), "exit code 0 without finalize (MPI_Finalize, PMIx_Finalize)");
  rank = rank_report(0);
  rank.stopped_by_us = true;
  rank.signal = SIGTERM;
  rank.failure.reported = true;
  rank.failure.before_stop = true;
  EXPECT_EQ(describe_end(rank), "reported an error before hvdrun stopped it");
}

TEST(ReportText, FormatsDurationsAndSizes) {
  EXPECT_EQ(format_duration(0.126), "0.13 s");
  EXPECT_EQ(format_duration(125), "2 min 5 s");
  EXPECT_EQ(format_duration(3725), "1 h 2 min");
  EXPECT_EQ(format_bytes(0), "0 kB");
  EXPECT_EQ(format_bytes(45'400'000), "45 MB");
  EXPECT_EQ(format_bytes(139'500'000'000), "139.5 GB");
}

TEST(ReportJson, IsValidWithAnyOutputOfRanks) {
  const auto json = nlohmann::json::parse(report_json(failed_job()));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_EQ(json["first_failure"], 2);
  ASSERT_EQ(json["ranks"].size(), 4u);
  EXPECT_EQ(json["ranks"][2]["ended"], "exit");
  EXPECT_EQ(json["ranks"][2]["exit_code"], 3);
  EXPECT_EQ(json["ranks"][2]["signal"], nullptr);
  EXPECT_EQ(json["ranks"][2]["last_stderr"][0], "Traceback");
  EXPECT_EQ(json["ranks"][0]["ended"], "stopped by hvdrun");
  EXPECT_EQ(json["ranks"][0]["signal"], "SIGTERM");
  EXPECT_EQ(json["ranks"][0]["gpu"], nullptr);
}

TEST(ReportJson, HoldsTheCountersOfRanks) {
  auto report = good_job();
  report.ranks[1].counters = {
      true, 5,  640, 0.5, 0.25, 12, {{11, 0.5, 64}}, {{"loss", 0.5}, {"x", std::nan("")}},
      11,   20, 50,  80.5};
  report.gpus = {{"n1", {gpu("GPU-1", 60, 1000), gpu("MIG-1", std::nullopt, 2000)}}};
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["ranks"][0]["counters"], nullptr);
  const auto& counters = json["ranks"][1]["counters"];
  EXPECT_EQ(counters["steps"], 5);
  EXPECT_EQ(counters["samples"], 640);
  EXPECT_EQ(counters["epochs_over"], 12);
  EXPECT_EQ(counters["epochs"][0]["seconds"], 0.5);
  EXPECT_EQ(counters["metrics"]["loss"], 0.5);
  EXPECT_EQ(counters["metrics"]["x"], nullptr) << "JSON has no NaN";
  EXPECT_EQ(counters["epoch"], 11);
  EXPECT_EQ(counters["epochs_in_all"], 20);
  EXPECT_EQ(counters["steps_in_all"], 50);
  EXPECT_EQ(counters["samples_per_second"], 80.5);
  const auto& progress = json["progress"];
  EXPECT_EQ(progress["epoch"], 11);
  EXPECT_EQ(progress["epochs"], 20);
  EXPECT_EQ(progress["step"], 5);
  EXPECT_EQ(progress["steps"], 50);
  EXPECT_EQ(progress["samples_per_second"], 80.5);
  EXPECT_EQ(progress["loss"], 0.5);
  const auto& host = json["hosts"][0];
  EXPECT_EQ(host["host"], "n1");
  EXPECT_EQ(host["cpu_cores"], 0.6);
  EXPECT_EQ(host["waiting_seconds"], 0.25) << "the mean of the ranks with libhvd";
  EXPECT_EQ(host["gpus"][0]["busy_percent"], 60);
  EXPECT_EQ(host["gpus"][1]["busy_percent"], nullptr);
  EXPECT_EQ(host["gpus"][1]["peak_memory_bytes"], 2000);
  EXPECT_EQ(json["stragglers"], nullptr);
}

TEST(ReportJson, HoldsTheValuesOfNvml) {
  auto report = good_job();
  report.ranks[1].peak_gpu_memory_bytes = 30'000'000'000;
  auto hot = whole_gpu("GPU-1");
  hot.device = "GPU 0 (NVIDIA H200, 0000:3b:00.0)";
  throttle(hot, ThrottleReason::hardware_thermal, 15);
  auto cool = whole_gpu("GPU-2");
  cool.throttling->seen = {};
  report.gpus = {{"n1", {hot, cool, gpu("GPU-3", std::nullopt, std::nullopt)}}};
  const auto json = nlohmann::json::parse(report_json(report));
  const auto& gpus = json["hosts"][0]["gpus"];
  using Json = nlohmann::json;
  const Json reasons{{{"reason", "HW thermal slowdown"}, {"percent", 50}},
                     {{"reason", "power cap"}, {"percent", 100 * 10.0 / 30}}};
  const Json expected{{"uuid", "GPU-1"},
                      {"device", "GPU 0 (NVIDIA H200, 0000:3b:00.0)"},
                      {"samples", 30},
                      {"busy_percent", 85},
                      {"peak_memory_bytes", 31'000'000'000},
                      {"peak_celsius", 71},
                      {"mean_watts", 612.4},
                      {"peak_watts", 700},
                      {"throttling", reasons}};
  EXPECT_EQ(gpus[0], expected);
  EXPECT_EQ(gpus[1]["throttling"], Json::array()) << "no throttling was seen";
  for (const auto& [name, value] : gpus[2].items())
    EXPECT_EQ(value.is_null(), name != "uuid" && name != "samples") << name;
  EXPECT_EQ(json["ranks"][0]["peak_gpu_memory_bytes"], nullptr);
  EXPECT_EQ(json["ranks"][1]["peak_gpu_memory_bytes"], 30'000'000'000);
}

TEST(ReportJson, HoldsTheGpuMemoryOfEveryAttempt) {
  auto first = failed_job();
  first.ranks[1].peak_gpu_memory_bytes = 3000;
  first.ranks[3].peak_gpu_memory_bytes = 5000;
  auto last = good_job();
  last.ranks[0].peak_gpu_memory_bytes = 4000;
  const auto json = nlohmann::json::parse(report_json(with_attempts({first, lost_agent(), last})));
  EXPECT_EQ(json["attempts"][0]["peak_gpu_memory_bytes"], 5000);
  EXPECT_EQ(json["attempts"][1]["peak_gpu_memory_bytes"], nullptr);
  EXPECT_EQ(json["attempts"][2]["peak_gpu_memory_bytes"], 4000);
  EXPECT_EQ(json["ranks"][0]["peak_gpu_memory_bytes"], 4000) << "of the last attempt";
  EXPECT_EQ(json["ranks"][1]["peak_gpu_memory_bytes"], nullptr);
}

TEST(ReportJson, HoldsEveryAttempt) {
  const auto json =
      nlohmann::json::parse(report_json(with_attempts({failed_job(), lost_agent(), good_job()})));
  EXPECT_EQ(json["exit_code"], 0);
  EXPECT_EQ(json["first_failure"], nullptr);
  EXPECT_EQ(json["not_restarted"], "");
  const auto& attempts = json["attempts"];
  ASSERT_EQ(attempts.size(), 3u);
  EXPECT_EQ(attempts[0]["exit_code"], 3);
  EXPECT_EQ(attempts[0]["reason"], kFirstFailure);
  EXPECT_EQ(attempts[0]["failed_rank"]["rank"], 2);
  EXPECT_EQ(attempts[0]["failed_rank"]["last_stderr"][0], "Traceback");
  EXPECT_EQ(attempts[1]["exit_code"], 125);
  EXPECT_EQ(attempts[1]["failed_rank"], nullptr);
  EXPECT_EQ(attempts[1]["cpu_seconds"], 0.25);
  EXPECT_EQ(attempts[1]["peak_memory_bytes"], 45'000'000);
  EXPECT_EQ(attempts[2]["reason"], "");
}

TEST(ReportFile, IsWrittenWithoutLeavingTemporaryFiles) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "report.json";
  ASSERT_TRUE(write_report(failed_job(), file));
  std::ifstream stream(file);
  EXPECT_EQ(nlohmann::json::parse(stream)["exit_code"], 3);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(ReportFile, IsCheckedBeforeTheJobStarts) {
  const TemporaryFolder folder;
  EXPECT_TRUE(check_report_file(folder.path() / "report.json"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(check_report_file(folder.path()).error().exit_code, kExitUsage);
  EXPECT_EQ(check_report_file("/nonexistent/report.json").error().exit_code, kExitUsage);
}

TEST(ReportFile, ErrorNamesTheFile) {
  const TemporaryFolder folder;
  const auto written = write_report(failed_job(), folder.path() / "missing" / "report.json");
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("missing/report.json"), std::string::npos);
}

}  // namespace
}  // namespace hvdrun
