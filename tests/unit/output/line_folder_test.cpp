// Tests lines of several ranks that are shown once, with a clock that the test sets.
#include "fixtures.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

TestConsole folding(int ranks, OutputSpec spec = {}, bool terminal = true) {
  spec.fold = FoldLines::on;
  return TestConsole({.ranks = ranks, .spec = std::move(spec), .terminal = terminal});
}

TEST(LineFolder, ShowsALineOfAllRanksOnceAndAtOnce) {
  auto console = folding(64);
  for (int rank = 0; rank < 63; ++rank) console.write(rank, "loading\n");
  EXPECT_EQ(console.out(), "");
  console.write(63, "loading\n");
  EXPECT_EQ(console.out(), "[0-63] loading\n");
}

TEST(LineFolder, ShowsALineOfOneRankAfterAMoment) {
  auto console = folding(4);
  console.write(2, "loss 0.5\n");
  console.pass(LineFolder::kAlone - milliseconds(1));
  EXPECT_EQ(console.out(), "");
  console.pass(milliseconds(1));
  EXPECT_EQ(console.out(), "[2] loss 0.5\n");
  EXPECT_FALSE(console.waits());
}

TEST(LineFolder, ALineOfOneRankDoesNotPushOutALineOfSeveral) {
  auto console = folding(4);
  for (int rank = 0; rank < 2; ++rank) console.write(rank, "loading\n");
  console.write(0, "ready\n");
  console.pass(milliseconds(900));
  EXPECT_EQ(console.out(), "") << "the others may still come";
  for (int rank = 2; rank < 4; ++rank) console.write(rank, "loading\n");
  EXPECT_EQ(console.out(), "[0-3] loading\n");
  console.pass(milliseconds(1));
  EXPECT_EQ(console.out(), "[0] ready\n");
}

TEST(LineFolder, WaitsASecondForOtherRanksInAFile) {
  auto console = folding(3, {}, false);
  console.write(0, "loading\n");
  console.pass(LineFolder::kTogether - milliseconds(1));
  console.write(2, "loading\n");
  console.pass(milliseconds(1));
  EXPECT_EQ(console.out(), "[0,2] loading\n");
}

TEST(LineFolder, FoldsInALargeLog) {
  for (const int ranks : {15, 16}) {
    TestConsole console(
        {.ranks = ranks, .spec = {.fold = FoldLines::in_large_log}, .terminal = false});
    for (int rank = 0; rank < ranks; ++rank) console.write(rank, "x\n");
    const auto out = console.out();
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), ranks < 16 ? ranks : 1);
  }
}

TEST(LineFolder, WaitsASecondForOtherRanks) {
  auto console = folding(4);
  console.write(0, "warning\n");
  console.pass(milliseconds(50));
  console.write(1, "warning\n");
  console.pass(milliseconds(700));
  console.write(3, "warning\n");
  EXPECT_EQ(console.out(), "");
  console.pass(milliseconds(250));
  EXPECT_EQ(console.out(), "[0-1,3] warning\n");
  console.write(2, "warning\n");
  console.pass(LineFolder::kAlone);
  EXPECT_EQ(console.out(), "[2] warning\n");
}

TEST(LineFolder, KeepsTheOrderWithinEachRank) {
  auto console = folding(2);
  console.write(0, "a\nb\n");
  console.write(1, "b\na\n");
  console.close(0);
  console.close(1);
  console.close(0, Stream::err);
  console.close(1, Stream::err);
  EXPECT_EQ(console.out(), "[0] a\n[0-1] b\n[1] a\n");
}

TEST(LineFolder, ShowsALineAsOftenAsEachRankPrintsIt) {
  auto console = folding(2);
  for (int rank = 0; rank < 2; ++rank) console.write(rank, "x\nx\nx\n");
  EXPECT_EQ(console.out(), "[0-1] x\n[0-1] x\n[0-1] x\n");
}

TEST(LineFolder, LinesOfOneRankDoNotKeepTheNextLinesApart) {
  auto console = folding(3);
  for (int rank = 0; rank < 3; ++rank) {
    const auto own = std::to_string(rank);
    console.write(rank, "I am " + own + "\nloading\nseed " + own + "\nready\n");
  }
  EXPECT_EQ(console.out(),
            "[0] I am 0\n[1] I am 1\n[2] I am 2\n[0-2] loading\n"
            "[0] seed 0\n[1] seed 1\n[2] seed 2\n[0-2] ready\n");
}

TEST(LineFolder, ALineOfOneRankWaitsNoLongerThanTheLineThatItMovedBefore) {
  auto console = folding(3);
  console.write(0, "loading\n");
  console.write(1, "I am 1\nloading\n");
  console.pass(LineFolder::kTogether - milliseconds(1));
  EXPECT_EQ(console.out(), "");
  console.pass(milliseconds(1));
  EXPECT_EQ(console.out(), "[1] I am 1\n[0-1] loading\n");
  EXPECT_FALSE(console.waits());
}

TEST(LineFolder, ARankThatHasEndedIsNotWaitedFor) {
  auto console = folding(3);
  console.close(2);
  console.close(2, Stream::err);
  console.close(2, Stream::err);
  for (int rank = 0; rank < 2; ++rank) console.write(rank, "x\n");
  EXPECT_EQ(console.out(), "[0-1] x\n");
  console.write(0, "y\n");
  console.write(1, "z");
  for (int rank = 0; rank < 2; ++rank)
    for (const auto stream : {Stream::out, Stream::err}) console.close(rank, stream);
  EXPECT_EQ(console.out(), "[0] y\n[1] z\n");
}

TEST(LineFolder, ALineOfRanksThatHaveEndedWaitsForTheOthers) {
  auto console = folding(3);
  for (int rank = 0; rank < 2; ++rank) {
    console.write(rank, "x\n");
    for (const auto stream : {Stream::out, Stream::err}) console.close(rank, stream);
  }
  EXPECT_EQ(console.out(), "");
  console.write(2, "x\n");
  EXPECT_EQ(console.out(), "[0-2] x\n");
}

TEST(LineFolder, TextsOfTwoStreamsStayApartAndInOrder) {
  auto console = folding(2);
  for (int rank = 0; rank < 2; ++rank) {
    console.write(rank, "out\n");
    console.write(rank, "out\n", Stream::err);
    console.write(rank, "end\n");
  }
  EXPECT_EQ(console.out(), "[0-1] out\n[0-1] out\n[0-1] end\n");
}

TEST(LineFolder, WhatIsNoWholeLineComesAfterTheLinesOfItsRank) {
  auto console = folding(3);
  console.write(0, "a\nname? ");
  console.write(1, "50%\r60%");
  console.pass(milliseconds(200));
  EXPECT_EQ(console.out(), "[0] a\n[0] name? \n[1] 60%\n");
}

TEST(LineFolder, ANoteComesAfterTheLinesBeforeIt) {
  auto console = folding(3);
  console.write(0, "a\n");
  console.note("hvdrun: note");
  EXPECT_EQ(console.out(), "[0] a\nhvdrun: note\n");
}

TEST(LineFolder, OtherLabelsNameOneRankEach) {
  for (const auto* label : {"none", "rank@host", "{rank}: "}) {
    auto console = folding(2, {.label = label});
    console.write(0, "x\n");
    console.write(1, "x\n");
    const auto out = console.out();
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2) << label;
  }
}

TEST(LineFolder, ALongListOfRanksIsCut) {
  auto console = folding(200);
  for (int rank = 0; rank < 200; rank += 2) console.write(rank, "x\n");
  console.pass(LineFolder::kTogether);
  const auto out = console.out();
  EXPECT_LT(out.size(), 80u);
  EXPECT_NE(out.find("… 100 ranks] x\n"), std::string::npos) << out;
}

TEST(LineFolder, HoldsLittle) {
  auto console = folding(2);
  std::size_t shown = 0;
  for (int i = 0; i < 2000; ++i) {
    console.write(0, std::to_string(i) + std::string(10'000, 'x') + "\n");
    shown += console.out().size();
  }
  EXPECT_GT(shown, 2000 * 10'000 - LineFolder::kMostHeld);
  console.write(0, std::string(LineFolder::kLongestLine, 'y') + "\n");
  EXPECT_GT(console.out().size(), LineFolder::kLongestLine);
}

TEST(LineFolder, AFailureOfSeveralRanksIsShownOnceHoweverFewTheyAre) {
  for (const bool terminal : {false, true}) {
    for (const bool shared : {false, true}) {
      TestConsole console({.ranks = 3, .shared = shared, .terminal = terminal});
      for (int rank = 0; rank < 3; ++rank) {
        console.fail(rank, "Traceback\n  File\nrank " + std::to_string(rank) + "\n");
        console.pass(milliseconds(900));
      }
      console.pass(LineFolder::kTogether);
      EXPECT_EQ(shared ? console.out() : console.err(),
                "[0-2] Traceback\n[0-2]   File\n[0] rank 0\n[1] rank 1\n[2] rank 2\n");
    }
  }
}

TEST(LineFolder, AFailureWaitsOnlySoLongForMoreRanks) {
  TestConsole console({.ranks = 9});
  for (int rank = 0; rank < 8; ++rank) {
    console.fail(rank, "Traceback\n");
    console.pass(milliseconds(900));
  }
  EXPECT_EQ(console.out(), "[0-5] Traceback\n");
}

TEST(LineFolder, PyTorchsNumberOfTheRankMakesNoDifference) {
  TestConsole console({.ranks = 12});
  for (const int rank : {1, 11}) {
    const auto prefix = "[rank" + std::to_string(rank) + "]: ";
    console.fail(rank, prefix + "Traceback\n" + prefix + "bad " + prefix + "\n[rank2]: x\n");
  }
  console.pass(LineFolder::kTogether);
  EXPECT_EQ(console.out(),
            "[1,11] Traceback\n[1]  [rank1]: bad [rank1]: \n[11] [rank11]: bad [rank11]: \n"
            "[1,11] [rank2]: x\n");
}

TEST(LineFolder, WhatARankPrintsBesideItsFailureKeepsItsPlace) {
  TestConsole console({.ranks = 3});
  console.write(0, "before\n");
  console.fail(0, "Traceback\n");
  console.write(1, "other rank\n");
  console.write(0, "after\n");
  EXPECT_EQ(console.out(), "[0] before\n[1] other rank\n");
  console.pass(LineFolder::kTogether);
  EXPECT_EQ(console.out(), "[0] Traceback\n[0] after\n");
}

TEST(LineFolder, ARankThatHasCaughtAnExceptionPrintsAtOnceAfterASecond) {
  TestConsole console({.ranks = 3, .terminal = false});
  console.fail(0, "Traceback\n");
  console.pass(milliseconds(600));
  console.write(0, "going on\n", Stream::err);
  console.pass(milliseconds(600));
  EXPECT_EQ(console.out(), "[0] Traceback\n");
  console.write(0, "step\n");
  EXPECT_EQ(console.out(), "[0] going on\n[0] step\n");
}

TEST(LineFolder, LinesOfHealthyRanksDoNotWaitForFailures) {
  auto console = folding(16);
  for (int rank = 0; rank < 4; ++rank) {
    console.fail(rank, "Traceback\n");
    console.pass(milliseconds(800));
  }
  console.write(9, "step\n");
  console.pass(LineFolder::kAlone);
  EXPECT_EQ(console.out(), "[9]  step\n");
  console.pass(LineFolder::kTogether);
  EXPECT_EQ(console.out(), "[0-3] Traceback\n");
}

TEST(LineFolder, ALineBetweenEqualOnesWithPyTorchsNumberMoves) {
  auto console = folding(3);
  for (int rank = 0; rank < 3; ++rank) {
    const auto prefix = "[rank" + std::to_string(rank) + "]: ";
    console.write(rank, prefix + "a\n" + prefix + std::to_string(rank) + "\n" + prefix + "b\n");
  }
  EXPECT_EQ(console.out(), "[0-2] a\n[0] [rank0]: 0\n[1] [rank1]: 1\n[2] [rank2]: 2\n[0-2] b\n");
}

TEST(LineFolder, AFailureIsShownWhenAllRanksHaveEnded) {
  TestConsole console({.ranks = 2, .terminal = false});
  console.close(1);
  console.close(1, Stream::err);
  console.fail(0, "Traceback\n");
  EXPECT_EQ(console.out(), "[0] Traceback\n");
  console.close(0);
  console.close(0, Stream::err);
  EXPECT_FALSE(console.waits());
}

TEST(LineFolder, ShowsFailuresOfEachRankIfNothingIsToBeFolded) {
  for (const OutputSpec& spec : {OutputSpec{.fold = FoldLines::off}, OutputSpec{.label = "none"}}) {
    TestConsole console({.ranks = 2, .spec = spec});
    for (int rank = 0; rank < 2; ++rank) console.fail(rank, "Traceback\n");
    const auto out = console.out();
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2);
  }
}

// What ranks print at random comes out complete, and in order for each rank.
TEST(LineFolder, LosesNothingOfRandomOutput) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const int ranks = 1 + static_cast<int>(random() % 5);
    OutputSpec spec{.label = "rank"};
    auto console =
        seed % 2 == 0 ? TestConsole({.ranks = ranks, .spec = spec}) : folding(ranks, spec);
    std::map<int, std::string> printed, shown;
    std::string out;
    for (int i = 0; i < 60; ++i) {
      const int rank = static_cast<int>(random() % static_cast<unsigned>(ranks));
      const auto line = std::string(1, static_cast<char>('a' + random() % 3)) + "\n";
      printed[rank] += line;
      seed % 2 == 0 && random() % 4 == 0 ? console.fail(rank, line) : console.write(rank, line);
      if (random() % 8 == 0) console.pass(milliseconds(random() % 300));
      out += console.out();
    }
    console.pass(milliseconds(2000));
    out += console.out();
    for (std::size_t at = 0; at < out.size();) {
      const auto end = out.find('\n', at);
      const auto close = out.find(']', at);
      const auto set = *RankSet::parse(out.substr(at + 1, close - at - 1));
      for (int rank = 0; rank < ranks; ++rank)
        if (set.contains(rank)) shown[rank] += out.substr(end - 1, 2);
      at = end + 1;
    }
    EXPECT_EQ(shown, printed) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hvdrun
