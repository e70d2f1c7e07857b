#include "job/stalls.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr StallReporter::Clock::time_point kNow{std::chrono::seconds(1000)};

// A job with ranks 0 and 1 on n1, 2 and 3 on n2, and so on. No rank is in a collective.
struct FakeJob {
  explicit FakeJob(int size) : reports(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      reports[static_cast<std::size_t>(rank)].host = "n" + std::to_string(rank / 2 + 1);
      RankState state;
      state.rank = rank;
      state.pid = 100 + rank;
      state.state = "S";
      states.push_back(state);
    }
  }

  RankState& rank(int number) { return states[static_cast<std::size_t>(number)]; }
  void put(int number, const std::string& collective, double seconds) {
    rank(number).collective = collective;
    rank(number).collective_seconds = seconds;
  }
  void put_background(int number, const std::string& collective, double seconds,
                      const std::string& missing) {
    rank(number).background = collective;
    rank(number).background_seconds = seconds;
    rank(number).background_missing = missing;
  }

  std::vector<RankReport> reports;
  std::vector<RankState> states;
};

StallsMessage began(int rank, const std::string& collective) {
  return {{{rank, collective, false}}, {}};
}

StallsMessage ended(int rank, const std::string& collective, bool completed = true) {
  return {{}, {{rank, collective, completed}}};
}

TEST(StallReporter, WarnsOnceWhoWaitsForWhom) {
  FakeJob job(4);
  job.put(0, "allreduce grad.3", 60.2);
  job.put(1, "allreduce grad.3", 59.9);
  job.put(3, "allreduce grad.3", 0.5);
  StallReporter table;
  EXPECT_FALSE(table.asks());
  EXPECT_THAT(table.take(began(0, "allreduce grad.3"), kNow), IsEmpty());
  EXPECT_THAT(table.take(began(1, "allreduce grad.3"), kNow), IsEmpty());
  EXPECT_TRUE(table.asks());
  EXPECT_THAT(
      table.explain(job.states, {}, job.reports, kNow),
      ElementsAre("warning: allreduce \"grad.3\" has waited 60 s for rank 2 on n2 (pid 102); ranks "
                  "0-1,3 wait"));
  EXPECT_FALSE(table.asks());
  EXPECT_THAT(table.take(began(3, "allreduce grad.3"), kNow), IsEmpty());
  EXPECT_FALSE(table.asks()) << "the stall was reported";
}

TEST(StallReporter, ReportsOnceThatACollectiveContinues) {
  FakeJob job(2);
  job.put(0, "barrier", 60);
  StallReporter table;
  EXPECT_THAT(table.take(began(0, "barrier"), kNow), IsEmpty());
  EXPECT_THAT(
      table.explain(job.states, {}, job.reports, kNow),
      ElementsAre("warning: barrier has waited 60 s for rank 1 on n1 (pid 101); rank 0 waits"));
  EXPECT_THAT(table.take(ended(0, "barrier"), kNow + std::chrono::seconds(15)),
              ElementsAre("barrier continues after 75 s"));
  EXPECT_THAT(table.take(ended(1, "barrier"), kNow), IsEmpty());
  EXPECT_THAT(table.take(began(0, "barrier"), kNow), IsEmpty());
  EXPECT_EQ(table.explain(job.states, {}, job.reports, kNow).size(), 1u)
      << "the next stall is reported, too";
}

TEST(StallReporter, FailedCollectiveIsNotReportedAsContinuing) {
  FakeJob job(2);
  job.put(0, "barrier", 60);
  StallReporter table;
  EXPECT_THAT(table.take(began(0, "barrier"), kNow), IsEmpty());
  EXPECT_EQ(table.explain(job.states, {}, job.reports, kNow).size(), 1u);
  EXPECT_THAT(table.take(ended(0, "barrier", false), kNow), IsEmpty());
}

TEST(StallReporter, StallThatEndsBeforeItsExplanationIsNotReported) {
  FakeJob job(2);
  StallReporter table;
  EXPECT_THAT(table.take(began(0, "barrier"), kNow), IsEmpty());
  EXPECT_THAT(table.explain(job.states, {}, job.reports, kNow), IsEmpty())
      << "no rank waits any more";
  EXPECT_THAT(table.take(began(0, "barrier"), kNow), IsEmpty());
  EXPECT_THAT(table.take(ended(0, "barrier"), kNow), IsEmpty());
  EXPECT_FALSE(table.asks());
}

TEST(StallReporter, SaysThatNoRankIsMissing) {
  FakeJob job(2);
  job.put(0, "allreduce g", 60);
  job.put(1, "allreduce g", 61);
  StallReporter table;
  EXPECT_THAT(table.take(began(0, "allreduce g"), kNow), IsEmpty());
  EXPECT_THAT(
      table.explain(job.states, {}, job.reports, kNow),
      ElementsAre("warning: allreduce \"g\" has lasted 61 s, and no rank is missing: ranks 0-1 "
                  "are in it"));
}

// On GPUs a rank knows only which ranks take part. A rank whose GPU has not arrived shows no call.
TEST(StallReporter, RankThatShowsNoCollectiveIsMissingOnGpus) {
  FakeJob job(4);
  job.put_background(0, "allreduce g", 61, "1-2");
  job.put_background(2, "allreduce g", 60, "0-1");
  StallReporter table;
  EXPECT_THAT(table.take(began(2, "allreduce g"), kNow), IsEmpty());
  EXPECT_THAT(
      table.explain(job.states, {}, job.reports, kNow),
      ElementsAre("warning: allreduce \"g\" has waited 61 s for rank 1 on n1 (pid 101); ranks 0,2 "
                  "wait"));
}

TEST(StallReporter, SaysWhatTheMissingRanksDo) {
  FakeJob job(3);
  job.put(0, "allreduce g", 0.34);
  job.put(1, "broadcast w", 0.3);
  job.rank(2).state = "ended";
  StallReporter table;
  EXPECT_THAT(table.take(began(0, "allreduce g"), kNow), IsEmpty());
  EXPECT_THAT(
      table.explain(job.states, {}, job.reports, kNow),
      ElementsAre(
          "warning: allreduce \"g\" has waited 0.3 s for rank 1 on n1 (pid 101, in broadcast "
          "\"w\"), rank 2 on n2 (pid 102, which has ended); rank 0 waits"));
}

TEST(StallReporter, FoldsManyRanksIntoRanges) {
  FakeJob job(64);
  for (int rank = 0; rank < 4; ++rank) job.put(rank, "allreduce g", 60);
  StallReporter table;
  EXPECT_THAT(table.take(began(0, "allreduce g"), kNow), IsEmpty());
  EXPECT_THAT(
      table.explain(job.states, {}, job.reports, kNow),
      ElementsAre(
          "warning: allreduce \"g\" has waited 60 s for ranks 4-63 on n[3-32]; ranks 0-3 wait"));
}

// A rank shows only the oldest of its collectives in the background, and its missing ranks.
TEST(StallReporter, BackgroundCollectivesNameTheirMissingRanks) {
  FakeJob job(4);
  job.put_background(0, "allreduce a", 61, "2");
  job.put_background(1, "allreduce b", 61, "2");
  job.put_background(3, "allreduce a", 61, "2");
  StallReporter table;
  EXPECT_THAT(table.take(began(0, "allreduce a"), kNow), IsEmpty());
  EXPECT_THAT(
      table.explain(job.states, {}, job.reports, kNow),
      ElementsAre(
          "warning: allreduce \"a\" has waited 61 s for rank 2 on n2 (pid 102); ranks 0,3 wait"));
}

TEST(StallReporter, IgnoresAnInvalidListOfMissingRanks) {
  FakeJob job(2);
  job.put_background(0, "allreduce a", 61, "x,999999999999");
  StallReporter table;
  EXPECT_THAT(table.take(began(0, "allreduce a"), kNow), IsEmpty());
  EXPECT_THAT(
      table.explain(job.states, {}, job.reports, kNow),
      ElementsAre(
          "warning: allreduce \"a\" has waited 61 s for rank 1 on n1 (pid 101); rank 0 waits"));
}

TEST(StallReporter, EscapesControlCharactersInNames) {
  FakeJob job(2);
  job.put(0, "allreduce a\nb", 60);
  StallReporter table;
  EXPECT_THAT(table.take(began(0, "allreduce a\nb"), kNow), IsEmpty());
  EXPECT_THAT(
      table.explain(job.states, {}, job.reports, kNow),
      ElementsAre(
          "warning: allreduce \"a\\nb\" has waited 60 s for rank 1 on n1 (pid 101); rank 0 waits"));
}

TEST(StallReporter, SummarizesManyStalls) {
  FakeJob job(8);
  StallsMessage stalls;
  for (int rank = 0; rank < 8; ++rank) {
    job.put(rank, "allreduce of rank " + std::to_string(rank), 60);
    stalls.begun.push_back({rank, job.rank(rank).collective, false});
  }
  StallReporter table;
  EXPECT_THAT(table.take(stalls, kNow), IsEmpty());
  const auto lines = table.explain(job.states, {}, job.reports, kNow);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines.back(), "and 4 other collectives wait, too");
}

TEST(FindWaits, FindsWhoHadWaitedForWhom) {
  FakeJob job(4);
  job.put(0, "allreduce grad", 14.2);
  job.put(2, "allreduce grad", 12);
  job.put(3, "broadcast w", 30);
  const auto waits = find_waits(job.states, job.reports);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].collective, "broadcast w");
  EXPECT_EQ(waits[0].text,
            "rank 3 had waited 30 s in broadcast \"w\" for rank 0 on n1 (pid 100, in allreduce "
            "\"grad\"), rank 1 on n1 (pid 101), rank 2 on n2 (pid 102, in allreduce \"grad\")");
  EXPECT_EQ(waits[1].seconds, 14.2);
  EXPECT_THAT(waits[1].waiting, ElementsAre(0, 2));
  EXPECT_THAT(waits[1].missing, ElementsAre(1, 3));
}

TEST(FindWaits, IgnoresShortWaitsAndCollectivesWithoutMissingRanks) {
  FakeJob job(3);
  EXPECT_THAT(find_waits(job.states, job.reports), IsEmpty());
  job.put(0, "allreduce a", 0.9);
  EXPECT_THAT(find_waits(job.states, job.reports), IsEmpty());
  for (int rank = 0; rank < 3; ++rank) job.put(rank, "allreduce b", 20);
  EXPECT_THAT(find_waits(job.states, job.reports), IsEmpty());
}

TEST(FindWaits, FindsWaitsInTheBackground) {
  FakeJob job(3);
  job.put_background(0, "allreduce grad", 5, "2");
  const auto waits = find_waits(job.states, job.reports);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].missing, ElementsAre(2));
}

TEST(StallReporter, NamesRanksWhoseAgentDoesNotAnswer) {
  FakeJob job(4);
  job.put(0, "allreduce grad.3", 60.2);
  job.put(1, "allreduce grad.3", 60.2);
  job.states.resize(2);
  StallReporter table;
  EXPECT_THAT(table.take(began(0, "allreduce grad.3"), kNow), IsEmpty());
  EXPECT_THAT(table.explain(job.states, {2, 3}, job.reports, kNow),
              ElementsAre("warning: allreduce \"grad.3\" has lasted 60 s, and no other rank is "
                          "missing: ranks 0-1 are in it; nothing is known of ranks 2-3 on n2: its "
                          "agent does not answer"));
}

}  // namespace
}  // namespace hvdrun
