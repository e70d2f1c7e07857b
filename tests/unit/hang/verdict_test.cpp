#include "hang/verdict.hpp"

#include "hang/looks.hpp"
#include "hang/verdict_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HangFacts facts_of(const std::vector<ProcessLook>& looks) {
  HangFacts facts;
  for (std::size_t rank = 0; rank < looks.size(); ++rank) {
    RankFacts one;
    one.rank = static_cast<int>(rank);
    one.host = "n1";
    one.looks = {looks[rank]};
    facts.ranks.push_back(std::move(one));
  }
  return facts;
}

TEST(Verdict, ARankThatHasNotComeToACollectiveOfHvdIsNamedWithItsLine) {
  auto facts = facts_of({in_loader(), in_loader(), in_loader()});
  for (const int rank : {0, 2}) {
    facts.ranks[static_cast<std::size_t>(rank)].collective = "allreduce grad/layer3";
    facts.ranks[static_cast<std::size_t>(rank)].calls = 81'244;
  }
  facts.ranks[1].host = "n5";
  facts.waits = {{"allreduce grad/layer3", 75, {0, 2}, {1}, ""}};
  const auto report = judge_hang(facts);
  EXPECT_EQ(report.text,
            "rank 1 on n5 has not come to allreduce \"grad/layer3\" (call 81,245), for which 2 "
            "ranks have waited 75 s; it "
            "is in loader.py:214 Loader.read(), waiting for fd 5: /data/shard-7 (nfs) for 12 s");
  EXPECT_EQ(report.kind, HangKind::hangs);
  EXPECT_THAT(report.blamed, ElementsAre(1));
  EXPECT_THAT(report.waiting, ElementsAre(0, 2));
}

TEST(Verdict, OfManyRanksOneIsNamedInAFewLines) {
  constexpr int kRanks = 4096;
  constexpr int kLate = 2731;
  auto facts = facts_of(std::vector<ProcessLook>(kRanks, in_loader()));
  facts.waits = {{"allreduce grad", 75, {}, {kLate}, ""}};
  for (int rank = 0; rank < kRanks; ++rank)
    if (rank != kLate) facts.waits[0].waiting.push_back(rank);
  for (std::size_t rank = 64; rank < facts.ranks.size(); ++rank)
    if (rank != kLate) facts.ranks[rank].looks.clear();  // a host has a limit
  const auto report = judge_hang(facts);
  EXPECT_THAT(report.text, HasSubstr("rank 2731 has not come to allreduce \"grad\""));
  EXPECT_THAT(report.text, HasSubstr("4095 ranks have waited"));
  EXPECT_LT(report.text.size(), 400U) << report.text;
  EXPECT_THAT(report.blamed, ElementsAre(kLate));
  EXPECT_LT(report.stacks.size(), 40U);
}

TEST(Verdict, ARankThatComputesMayOnlyBeSlow) {
  auto facts = facts_of({in_loader(), computing({python_frame("spin", "/home/u/train.py", 3)})});
  facts.waits = {{"allreduce grad", 75, {0}, {1}, ""}};
  const auto report = judge_hang(facts);
  EXPECT_EQ(report.kind, HangKind::slow);
  EXPECT_THAT(
      report.text,
      HasSubstr("it is in train.py:3 spin(), using 97 % of a processor; it is slow, or loops"));
}

TEST(Verdict, RanksThatWaitForEachOtherAreNamedTogether) {
  auto facts = facts_of({in_loader(), in_loader()});
  facts.ranks[0].collective = "allreduce a";
  facts.ranks[1].collective = "allreduce b";
  facts.waits = {{"allreduce a", 9, {0}, {1}, ""}, {"allreduce b", 8, {1}, {0}, ""}};
  const auto report = judge_hang(facts);
  EXPECT_THAT(report.blamed, ElementsAre(0, 1));
  EXPECT_THAT(
      report.text,
      HasSubstr("they wait for each other; every rank must call collectives in the same order"));
}

TEST(Verdict, AChainOfWaitsIsFollowedToItsEnd) {
  auto facts = facts_of({in_loader(), in_loader(), in_loader()});
  facts.waits = {{"allreduce a", 9, {0}, {1}, ""}, {"allreduce b", 8, {1}, {2}, ""}};
  EXPECT_THAT(judge_hang(facts).blamed, ElementsAre(2));
}

TEST(Verdict, ARankThatHasEndedIsNamedWithHowItDid) {
  auto facts = facts_of({in_torch("all_reduce", 88), in_torch("all_reduce", 88), in_loader()});
  facts.ranks[2].looks.clear();
  facts.ranks[2].ended = "exit code 0";
  const auto report = judge_hang(facts);
  EXPECT_EQ(report.text,
            "2 ranks are in all_reduce, called from train.py:88; rank 2 has ended (exit code 0)");
  EXPECT_THAT(report.blamed, ElementsAre(2));
}

TEST(Verdict, WithoutHvdTheStacksShowWhoIsMissing) {
  const auto report = judge_hang(facts_of({in_torch("all_reduce", 88), in_torch("all_reduce", 88),
                                           in_loader(), in_torch("all_reduce", 88)}));
  EXPECT_EQ(report.text,
            "3 ranks are in all_reduce, called from train.py:88; rank 2 is in loader.py:214 "
            "Loader.read(), waiting for fd 5: "
            "/data/shard-7 (nfs) for 12 s");
  EXPECT_THAT(report.blamed, ElementsAre(2));
  EXPECT_EQ(report.kind, HangKind::hangs);
}

TEST(Verdict, RanksThatWaitForTheirGpusWaitForTheOneThatDoesNot) {
  const auto sync = "cudaStreamSynchronize";
  const auto report = judge_hang(facts_of({on_gpu(sync, 88), on_gpu(sync, 88), in_loader()}));
  EXPECT_EQ(report.text,
            "2 ranks wait for their GPUs, in train.py:88 step(); rank 2 is in loader.py:214 "
            "Loader.read(), waiting for fd 5: /data/shard-7 (nfs) for 12 s");
  EXPECT_THAT(report.blamed, ElementsAre(2));
  EXPECT_EQ(report.kind, HangKind::hangs);
  // A collective on the processor, to which one with a late GPU has not come.
  const auto late = judge_hang(facts_of(
      {in_torch("barrier", 12), on_gpu("cudaEventSynchronize", 40), in_torch("barrier", 12)}));
  EXPECT_EQ(late.text,
            "2 ranks are in barrier, called from train.py:12; rank 1 is in train.py:40 step(), "
            "waiting for the GPU (cudaEventSynchronize); the GPU is slow, or its work has no end");
  EXPECT_THAT(late.blamed, ElementsAre(1));
  EXPECT_EQ(late.kind, HangKind::slow);
}

TEST(Verdict, IfAllWaitForTheirGpusNoRankIsBlamedUnlessItsLineDiffers) {
  const auto sync = "cudaStreamSynchronize";
  const auto all = judge_hang(facts_of({on_gpu(sync, 88), on_gpu(sync, 88), on_gpu(sync, 88)}));
  EXPECT_EQ(all.text,
            "3 ranks wait for their GPUs, in train.py:88 step(); a GPU computes, or a rank has not "
            "come to a collective of the others");
  EXPECT_EQ(all.kind, HangKind::slow);
  EXPECT_THAT(all.blamed, IsEmpty());
  const auto one = judge_hang(facts_of({on_gpu(sync, 88), on_gpu(sync, 40), on_gpu(sync, 88)}));
  EXPECT_THAT(one.blamed, ElementsAre(1));
  EXPECT_THAT(one.text, HasSubstr("rank 1 is in train.py:40 step(), waiting for the GPU"));
}

TEST(Verdict, AStoppedRankIsToBlameRatherThanOneThatComputes) {
  auto stopped = in_torch("all_reduce", 88);
  stopped.state = 'T';
  const auto report =
      judge_hang(facts_of({in_torch("all_reduce", 88), stopped,
                           computing({python_frame("spin", "/home/u/train.py", 3)})}));
  EXPECT_THAT(report.blamed, ElementsAre(1));
  EXPECT_THAT(report.text, HasSubstr("stopped by a signal"));
}

TEST(Verdict, OfTwoCollectivesThatOfFewerRanksIsToBlame) {
  const auto report = judge_hang(
      facts_of({in_torch("all_reduce", 88), in_torch("barrier", 12), in_torch("all_reduce", 88)}));
  EXPECT_THAT(report.blamed, ElementsAre(1));
  EXPECT_EQ(report.text,
            "ranks 0,2 are in all_reduce, called from train.py:88; rank 1 is in barrier, called "
            "from train.py:12: they wait for "
            "each other");
}

TEST(Verdict, IfAllAreInOneCollectiveTheLinesOrTheDataDiffer) {
  EXPECT_THAT(judge_hang(facts_of({in_torch("all_reduce", 88), in_torch("all_reduce", 88)})).text,
              HasSubstr("none is missing: they may have given it other shapes"));
  const auto lines = judge_hang(facts_of(
      {in_torch("all_reduce", 88), in_torch("all_reduce", 12), in_torch("all_reduce", 88)}));
  EXPECT_THAT(
      lines.text,
      HasSubstr("from different lines: ranks 0,2 from train.py:88, rank 1 from train.py:12"));
  EXPECT_THAT(lines.blamed, ElementsAre(1));
  EXPECT_THAT(judge_hang(facts_of({in_torch("recv", 5), in_torch("recv", 5)})).text,
              HasSubstr("each waits for another one's message"));
}

TEST(Verdict, AJobThatComputesDoesNotHang) {
  const auto busy = computing({python_frame("step", "/home/u/train.py", 3)});
  const auto report = judge_hang(facts_of({busy, busy}));
  EXPECT_EQ(report.kind, HangKind::moves);
  EXPECT_THAT(report.blamed, IsEmpty());
}

TEST(Verdict, WithoutCollectivesTheRankThatDiffersIsNamed) {
  const auto usual =
      sleeping({native_frame("accept"), python_frame("serve", "/home/u/train.py", 40)}, "accept",
               "fd 3: socket");
  const auto report = judge_hang(facts_of({usual, in_loader(), usual}));
  EXPECT_THAT(report.blamed, ElementsAre(1));
  EXPECT_THAT(report.text, HasSubstr("rank 1 is in loader.py:214"));
  EXPECT_THAT(report.text, HasSubstr("ranks 0,2 are in train.py:40 serve()"));
}

TEST(Verdict, RanksThatHaveWaitedForDifferentTimesAreOneGroup) {
  const auto sleeper = [](double seconds) {
    auto look = sleeping({python_frame("meet", "/home/u/train.py", 4)}, "clock_nanosleep", "");
    look.threads[0].waiting_seconds = seconds;
    return look;
  };
  const auto report = judge_hang(facts_of({sleeper(0.4), sleeper(1.2), sleeper(12)}));
  EXPECT_THAT(report.text, HasSubstr("ranks 0-2 are in train.py:4 meet(), sleeping"));
}

TEST(Verdict, WithoutStacksTheRankThatDiffersIsNamedFirst) {
  std::vector<ProcessLook> looks(3, sleeping({}, "nanosleep", ""));
  looks[1].threads[0].waiting_seconds = 13;
  looks[2] = sleeping({}, "read", "fd 5: /data/shard-7 (nfs)");
  const auto report = judge_hang(facts_of(looks));
  EXPECT_THAT(report.text, testing::StartsWith("rank 2 is waiting for fd 5: /data/shard-7 (nfs)"));
  EXPECT_THAT(report.blamed, ElementsAre(2));
}

// A rank in a collective of libhvd, as its stack shows.
ProcessLook in_hvd() {
  return sleeping({native_frame("hvd_allreduce", "/opt/lib/libhvd.so.0"),
                   native_frame("main", "/home/u/digits")});
}

TEST(Verdict, ARankThatHasNotWaitedLongInACollectiveOfHvdDoesNotHang) {
  auto facts = facts_of({in_hvd(), in_hvd()});
  for (auto& rank : facts.ranks) rank.calls = 5000;
  auto report = judge_hang(facts);
  EXPECT_EQ(report.kind, HangKind::moves);
  EXPECT_THAT(report.text, testing::StartsWith("no rank has waited long in a collective; "));
  for (auto& rank : facts.ranks) rank.waited = 7;
  report = judge_hang(facts);
  EXPECT_EQ(report.kind, HangKind::hangs) << "none is missing, and the network does not carry it";
  EXPECT_THAT(report.text, HasSubstr("all 2 ranks are in hvd_allreduce"));
}

TEST(Verdict, RanksThatSleepAgainAndAgainDoNotHang) {
  auto look = sleeping({python_frame("work", "/home/u/train.py", 3)}, "clock_nanosleep", "");
  look.threads[0].movement = Movement{0.5, 0.001, 10, false, 10};
  EXPECT_EQ(judge_hang(facts_of({look, look})).kind, HangKind::moves);
  look.threads[0].movement->sleeps = 1;  // a look has woken it
  EXPECT_EQ(judge_hang(facts_of({look, look})).kind, HangKind::hangs);
}

TEST(Verdict, RanksThatWakeOftenInACollectiveAreNotSaidToHang) {
  auto one = in_torch("all_reduce", 88);
  auto other = in_torch("barrier", 90);
  for (auto* look : {&one, &other}) look->threads[0].movement = Movement{0.5, 0.1, 60, true, 50};
  auto report = judge_hang(facts_of({one, one}));
  EXPECT_EQ(report.text,
            "ranks 0-1 are in all_reduce, called from train.py:88; they wake often: "
            "the job probably continues");
  EXPECT_EQ(report.kind, HangKind::slow);
  EXPECT_THAT(report.blamed, IsEmpty());
  report = judge_hang(facts_of({one, other}));
  EXPECT_THAT(report.text, HasSubstr("rank 1 is in barrier, called from train.py:90; they wake"));
}

TEST(Verdict, OfManyChildrenThatHaveEndedAFewAreNamed) {
  auto look = in_loader();
  for (int pid = 1; pid <= 200; ++pid) look.children.push_back({pid, "worker", 'Z'});
  const auto report = judge_hang(facts_of({look, in_loader()}));
  EXPECT_THAT(report.text, HasSubstr("its child 3 (worker) has ended; so it is with 197 more"));
  EXPECT_LT(report.text.size(), 400U);
}

TEST(Verdict, ItsLinesHaveNoCharactersThatControlATerminal) {
  const auto evil = sleeping({python_frame("work", "/tmp/e\x1b[35m\nvil.py", 3)}, "read",
                             "fd 5: /tmp/e\x1b[35m\nvil");
  const auto report = judge_hang(facts_of({evil, sleeping({}, "read", "")}));
  EXPECT_THAT(verdict_lines(report).front(), HasSubstr("e\\x1b[35m vil"));
  EXPECT_THAT(report.text, HasSubstr("e\\x1b[35m vil"));
  EXPECT_THAT(report.stacks, Contains(HasSubstr("e\\x1b[35m vil.py")));
  for (const auto& line : report.stacks) EXPECT_EQ(line.find('\n'), std::string::npos) << line;
}

TEST(Verdict, ARankWithAWorkerThatHasDiedIsNamed) {
  auto with_worker = in_loader();
  with_worker.children.push_back({55, "python3", 'Z'});
  const auto report = judge_hang(facts_of({in_loader(), with_worker, in_loader(), in_loader()}));
  EXPECT_THAT(report.blamed, ElementsAre(1));
  EXPECT_THAT(report.text, HasSubstr("its child 55 (python3) has ended"));
}

TEST(Verdict, NothingSeenIsSaid) {
  HangFacts facts = facts_of({ProcessLook()});
  facts.ranks[0].problem = "no right to look";
  const auto report = judge_hang(facts);
  EXPECT_EQ(report.kind, HangKind::unknown);
  EXPECT_THAT(report.problems, ElementsAre("rank 0: no right to look"));
  EXPECT_EQ(judge_hang({}).kind, HangKind::unknown);
}

TEST(Verdict, EqualStacksAreShownOnceWithThoseToBlameFirst) {
  const auto report =
      judge_hang(facts_of({in_torch("all_reduce", 88), in_loader(), in_torch("all_reduce", 88)}));
  ASSERT_FALSE(report.stacks.empty());
  EXPECT_EQ(report.stacks[0], "rank 1 on n1, pid 100 (python3): sleeping in read");
  EXPECT_EQ(report.stacks[2], "    Loader.read (/home/u/loader.py:214)");
  EXPECT_THAT(report.stacks, Contains("ranks 0,2 (python3): sleeping in futex"));
}

TEST(Verdict, ItsJsonHasWhoIsToBlame) {
  const auto text = verdict_json(judge_hang(facts_of({in_torch("all_reduce", 88), in_loader()})));
  EXPECT_THAT(text, HasSubstr(R"("kind":"hangs")"));
  EXPECT_THAT(text, HasSubstr(R"("blamed":[1])"));
}

TEST(Verdict, TheUsersLinesAreShownBelowALongStackOfLibhvd) {
  std::vector<LookFrame> stack{native_frame("poll")};
  for (int depth = 0; depth < 30; ++depth)
    stack.push_back(native_frame("hvd::inner" + std::to_string(depth), "/usr/lib/libhvd.so.0"));
  stack.push_back(native_frame("hvd_allreduce", "/usr/lib/libhvd.so.0"));
  stack.push_back(python_frame("train", "/home/u/train.py", 12));
  const auto report = judge_hang(facts_of({sleeping(stack), in_loader()}));
  EXPECT_THAT(report.stacks, Contains("    … 30 functions of libhvd"));
  EXPECT_THAT(report.stacks, Contains("    hvd_allreduce (libhvd.so.0)"));
  EXPECT_THAT(report.stacks, Contains("    train (/home/u/train.py:12)"));
}

TEST(Verdict, TheUsersLinesAreShownBelowALongStackOfOtherLibraries) {
  std::vector<LookFrame> stack;
  for (int depth = 0; depth < 20; ++depth)
    stack.push_back(native_frame("inner" + std::to_string(depth), "/usr/lib/libtorch_cpu.so"));
  stack.push_back(python_frame("train", "/home/u/train.py", 12));
  const auto report = judge_hang(facts_of({sleeping(stack), in_loader()}));
  EXPECT_THAT(report.stacks, Contains("    … 4 functions more"));
  EXPECT_THAT(report.stacks, Contains("    train (/home/u/train.py:12)"));
}

}  // namespace
}  // namespace hvdrun
