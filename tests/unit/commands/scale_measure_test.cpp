#include "commands/scale_measure.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace hvdrun::scale {
namespace {

// A report of two ranks, of which the second is slower, and of a third one without libhvd.
constexpr const char* kReport = R"({"wall_seconds": 12.5, "ranks": [
  {"counters": {"epochs_over": 3, "metrics": {"loss": 0.25},
    "epochs": [{"epoch": 0, "seconds": 9, "samples": 100}, {"epoch": 1, "seconds": 2, "samples": 100},
               {"epoch": 2, "seconds": 3, "samples": 100}]}},
  {"counters": {"epochs_over": 3, "metrics": {"loss": 0.75, "own": null},
    "epochs": [{"epoch": 0, "seconds": 9, "samples": 100}, {"epoch": 1, "seconds": 4, "samples": 60},
               {"epoch": 2, "seconds": 2, "samples": 50}]}},
  {"counters": null}]})";

TEST(MeasureReport, UsesTheSlowestRanksTimeAndAllSamples) {
  scale::Run run;
  ASSERT_TRUE(measure_report(kReport, 1, run));
  EXPECT_EQ(run.wall_seconds, 12.5);
  EXPECT_EQ(run.epochs, 2);
  EXPECT_EQ(run.epoch_seconds, 3.5) << "the median of 4 and 3";
  EXPECT_EQ(run.throughput, 45) << "the median of 160/4 and 150/3";
}

TEST(MeasureReport, UsesMetricsOfTheLowestRank) {
  scale::Run run;
  ASSERT_TRUE(measure_report(kReport, 1, run));
  ASSERT_EQ(run.metrics.size(), 2u);
  EXPECT_EQ(run.metrics[0].name, "loss");
  EXPECT_EQ(run.metrics[0].value, 0.25);
  EXPECT_EQ(run.metrics[1].name, "own");
  EXPECT_TRUE(std::isnan(run.metrics[1].value)) << "null in JSON";
}

TEST(MeasureReport, DropsEpochsUnlessNoneWouldRemain) {
  scale::Run run;
  ASSERT_TRUE(measure_report(kReport, 2, run));
  EXPECT_EQ(run.epochs, 1);
  EXPECT_EQ(run.epoch_seconds, 3);
  ASSERT_TRUE(measure_report(kReport, 3, run));
  EXPECT_EQ(run.epochs, 3);
  ASSERT_TRUE(measure_report(kReport, 0, run));
  EXPECT_EQ(run.epochs, 3);
}

TEST(MeasureReport, DropsEpochsFromTheStartOfTheRun) {
  scale::Run run;
  ASSERT_TRUE(measure_report(
      R"({"wall_seconds": 1, "ranks": [{"counters": {"epochs_over": 12, "metrics": {},
          "epochs": [{"epoch": 10, "seconds": 5, "samples": 0}, {"epoch": 11, "seconds": 7, "samples": 0}]}}]})",
      1, run));
  EXPECT_EQ(run.epochs, 2) << "the first epoch is not in the report";
  EXPECT_EQ(run.epoch_seconds, 6);
  EXPECT_FALSE(run.throughput) << "the report has no samples";
}

TEST(MeasureReport, HasOnlyTheTimeWithoutCounters) {
  scale::Run run;
  ASSERT_TRUE(measure_report(R"({"wall_seconds": 2, "ranks": [{"counters": null}]})", 1, run));
  EXPECT_EQ(run.wall_seconds, 2);
  EXPECT_FALSE(run.epoch_seconds);
  EXPECT_TRUE(run.metrics.empty());
}

TEST(MeasureReport, ListsHostsWithKnownHardware) {
  scale::Run run;
  ASSERT_TRUE(measure_report(R"({"wall_seconds": 2, "ranks": [], "hosts": [
      {"host": "n1", "cores": 4, "devices": ["A", null]}, {"host": "n2", "cores": null, "devices": null}]})",
                             1, run));
  ASSERT_EQ(run.hosts.size(), 1u);
  EXPECT_EQ(run.hosts[0].host, "n1");
  EXPECT_EQ(run.hosts[0].cores, 4);
  EXPECT_EQ(run.hosts[0].gpus, (std::vector<std::string>{"A", ""}));
}

TEST(MeasureReport, RefusesInvalidReports) {
  scale::Run run;
  for (const char* const text : {"", "{", "[]", R"({"wall_seconds": "2", "ranks": []})"})
    EXPECT_FALSE(measure_report(text, 1, run)) << text;
}

Patterns patterns() {
  Patterns patterns;
  patterns.throughput = *parse_pattern("rate: ([0-9.]+)");
  patterns.loss = *parse_pattern(R"(loss=(\S+))");
  return patterns;
}

TEST(MeasureOutput, UsesTheMedianThroughputAndTheLastLoss) {
  scale::Run run;
  run.metrics = {{"loss", 7}, {"accuracy", 0.5}};
  measure_output("rate: 1\nother\nrate: 10 loss=0.5\n[0] rate: 30 loss=nan\nrate: 20", patterns(),
                 1, run);
  EXPECT_EQ(run.throughput, 20);
  EXPECT_EQ(run.epochs, 3);
  ASSERT_EQ(run.metrics.size(), 2u);
  EXPECT_TRUE(std::isnan(run.metrics[0].value)) << "it replaces the value of the counters";
  EXPECT_EQ(run.metrics[1].value, 0.5);
}

TEST(MeasureOutput, KeepsValuesThatTheOutputLacks) {
  scale::Run run;
  run.throughput = 3;
  measure_output("rate: fast\nrate: .\n", patterns(), 1, run);
  EXPECT_EQ(run.throughput, 3);
  EXPECT_TRUE(run.metrics.empty());
}

TEST(MeasureOutput, ReadsOnlyTheBeginningOfLongLines) {
  scale::Run run;
  measure_output(
      "rate: 5" + std::string(1 << 20, ' ') + "\n" + std::string(1 << 20, 'x') + "rate: 7\n",
      patterns(), 0, run);
  EXPECT_EQ(run.throughput, 5);
}

TEST(ParsePattern, RefusesPatternsWithoutAGroupAndInvalidOnes) {
  EXPECT_EQ(parse_pattern("loss").error().message,
            "\"loss\" has no group; put the number in parentheses: samples/s: ([0-9.]+)");
  const auto broken = parse_pattern("([0-9");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message.rfind("\"([0-9\" is not a regular expression: ", 0), 0u);
  EXPECT_EQ(broken.error().exit_code, kExitUsage);
}

}  // namespace
}  // namespace hvdrun::scale
