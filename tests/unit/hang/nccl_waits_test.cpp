#include "hang/nccl_waits.hpp"

#include "hang/looks.hpp"
#include "hang/verdict.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Calls = std::map<std::string, std::uint64_t>;

// Rank R has the pid 100 + R, on 10.0.0.1.
NcclCommunicator communicator(const std::vector<Calls>& calls, std::string id = "a") {
  NcclCommunicator one{std::move(id), {}};
  for (const auto& each : calls) {
    const int rank = static_cast<int>(one.members.size());
    one.members.push_back({rank, "10.0.0.1", 100 + rank, each, false});
  }
  return one;
}

std::vector<HostProcesses> one_host(int ranks) {
  HostProcesses host;
  for (int rank = 0; rank < ranks; ++rank) host.ranks[100 + rank] = rank;
  return {host};
}

TEST(NcclWaits, TheRankThatHasCalledFewerIsMissing) {
  const auto facts = find_nccl_waits(
      {communicator({{{"AllReduce", 1234}}, {{"AllReduce", 1233}}, {{"AllReduce", 1235}}})},
      one_host(3));
  ASSERT_THAT(facts.waits, SizeIs(1));
  EXPECT_EQ(facts.waits[0].collective, "AllReduce 1,234 of the NCCL communicator of 3 ranks");
  EXPECT_THAT(facts.waits[0].missing, ElementsAre(1));
  EXPECT_THAT(facts.waits[0].waiting, ElementsAre(0, 2));
}

TEST(NcclWaits, RanksThatHaveCalledDifferentOnesWaitForEachOther) {
  const auto facts = find_nccl_waits({communicator({{{"AllReduce", 6}, {"Broadcast", 0}},
                                                    {{"AllReduce", 5}, {"Broadcast", 1}},
                                                    {{"AllReduce", 6}, {"Broadcast", 0}}})},
                                     one_host(3));
  ASSERT_THAT(facts.waits, SizeIs(2));
  EXPECT_THAT(facts.waits[0].missing, ElementsAre(1));
  EXPECT_THAT(facts.waits[1].missing, ElementsAre(0, 2));
  EXPECT_EQ(facts.waits[1].collective, "Broadcast 1 of the NCCL communicator of 3 ranks");
}

TEST(NcclWaits, OfAnotherJobNothingIsKnown) {
  const auto late = communicator({{{"AllReduce", 2}}, {{"AllReduce", 1}}});
  EXPECT_THAT(find_nccl_waits({late}, {}).waits, IsEmpty());
  EXPECT_THAT(find_nccl_waits({late}, one_host(1)).waits, IsEmpty());
  EXPECT_THAT(find_nccl_waits({late}, {{"", {{7, 0}, {8, 1}}}}).waits, IsEmpty());
}

// Containers on several hosts may have the same pids.
TEST(NcclWaits, OfSeveralHostsWithTheSamePidsTheAddressSaysWhichItIs) {
  const auto late = communicator({{{"AllReduce", 2}}, {{"AllReduce", 1}}});
  std::vector<HostProcesses> hosts{{"10.0.0.2", {{100, 0}, {101, 1}}},
                                   {"10.0.0.1", {{100, 2}, {101, 3}}}};
  EXPECT_THAT(find_nccl_waits({late}, hosts).waits.at(0).missing, ElementsAre(3));
  hosts[1].address = "";
  EXPECT_THAT(find_nccl_waits({late}, hosts).waits, IsEmpty());
}

TEST(NcclWaits, ARankWithSeveralProcessesDoesNotWaitForItself) {
  const auto late = communicator({{{"AllReduce", 2}}, {{"AllReduce", 1}}, {{"AllReduce", 2}}});
  EXPECT_THAT(find_nccl_waits({late}, {{"", {{100, 0}, {101, 0}, {102, 0}}}}).waits, IsEmpty());
  const auto facts = find_nccl_waits({late}, {{"", {{100, 0}, {101, 0}, {102, 1}}}});
  EXPECT_THAT(facts.waits.at(0).missing, ElementsAre(0));
  EXPECT_THAT(facts.waits.at(0).waiting, ElementsAre(1));
}

TEST(NcclWaits, OfACommunicatorOfAllRanksThoseThatAreNotNamedAreTheOthers) {
  const NcclMember other{-1, "", -1, {{"AllReduce", 2}}, false};
  auto late = communicator({{{"AllReduce", 1}}});
  late.members.resize(3, other);
  const auto facts = find_nccl_waits({late}, one_host(3));
  EXPECT_THAT(facts.waits.at(0).missing, ElementsAre(0));
  EXPECT_THAT(facts.waits.at(0).waiting, ElementsAre(1, 2));
  EXPECT_THAT(find_nccl_waits({late}, one_host(4)).waits, IsEmpty());
  late.members[0].calls = {{"AllReduce", 3}};
  EXPECT_THAT(find_nccl_waits({late}, one_host(3)).waits.at(0).missing, ElementsAre(1, 2));
  late.members[0].pid = 7;
  EXPECT_THAT(find_nccl_waits({late}, one_host(3)).waits, IsEmpty());
}

// ---- the verdict

HangFacts facts_with(std::vector<ProcessLook> looks, const std::vector<NcclCommunicator>& nccl) {
  HangFacts facts;
  for (auto& look : looks) {
    const int rank = static_cast<int>(facts.ranks.size());
    RankFacts one;
    one.rank = rank;
    one.host = "n1";
    one.looks.push_back(std::move(look));
    facts.ranks.push_back(std::move(one));
  }
  facts.nccl = find_nccl_waits(nccl, one_host(static_cast<int>(facts.ranks.size())));
  return facts;
}

const auto kOneLate = communicator({{{"AllReduce", 6}}, {{"AllReduce", 5}}, {{"AllReduce", 6}}});

TEST(NcclVerdict, TheRankThatHasNotComeIsNamed) {
  const auto report = judge_hang(facts_with(
      {on_gpu("cudaStreamSynchronize", 88), in_loader(), on_gpu("cudaStreamSynchronize", 88)},
      {kOneLate}));
  EXPECT_THAT(report.text, HasSubstr("rank 1 has not come to AllReduce 6 of the NCCL communicator "
                                     "of 3 ranks, for which 2 ranks wait; it is in loader.py:214"));
  EXPECT_EQ(report.kind, HangKind::hangs);
  EXPECT_THAT(report.blamed, ElementsAre(1));
  EXPECT_THAT(report.waiting, ElementsAre(0, 2));
}

TEST(NcclVerdict, IfAllWaitForTheirGpusItIsNotSaidThatTheOthersWaitForTheRank) {
  const auto on = [](int line) { return on_gpu("cudaStreamSynchronize", line); };
  const auto report = judge_hang(facts_with({on(88), on(88), on(88)}, {kOneLate}));
  EXPECT_THAT(report.text,
              HasSubstr("rank 1 has not come to AllReduce 6 of the NCCL communicator "
                        "of 3 ranks, which 2 ranks have called; it is in train.py:88"));
  EXPECT_THAT(report.text, HasSubstr("a collective that another GPU has not reached"));
  EXPECT_EQ(report.kind, HangKind::slow);
  EXPECT_THAT(report.blamed, ElementsAre(1));
}

// The processors run ahead of their GPUs, each as far as it likes.
TEST(NcclVerdict, ARankThatWaitsForItsGpuIsNotBlamedIfAnotherOneDoesNotWait) {
  const auto on = [](int line) { return on_gpu("cudaStreamSynchronize", line); };
  const auto report = judge_hang(facts_with({on(88), on(88), in_loader()}, {kOneLate}));
  EXPECT_THAT(report.blamed, ElementsAre(2));
}

TEST(NcclVerdict, ARankThatIsStoppedOrHasEndedSaysMore) {
  const auto on = on_gpu("cudaStreamSynchronize", 88);
  auto stopped = on;
  stopped.state = 'T';
  EXPECT_THAT(judge_hang(facts_with({stopped, on, on}, {kOneLate})).blamed, ElementsAre(0));
  auto facts = facts_with({on, on, on}, {kOneLate});
  facts.ranks[2].ended = "exit code 0";
  EXPECT_THAT(judge_hang(facts).blamed, ElementsAre(2));
}

TEST(NcclVerdict, NoRankThatComputesWaits) {
  const auto computes = computing({python_frame("step", "/home/u/train.py", 7)});
  const auto report = judge_hang(facts_with({computes, in_loader(), computes}, {kOneLate}));
  EXPECT_THAT(report.text, ::testing::Not(HasSubstr("AllReduce")));
}

TEST(NcclVerdict, RanksInTwoCommunicatorsWaitForEachOther) {
  const auto on = on_gpu("cudaStreamSynchronize", 88);
  const auto report = judge_hang(
      facts_with({on, on}, {communicator({{{"AllReduce", 6}}, {{"AllReduce", 5}}}),
                            communicator({{{"AllGather", 1}}, {{"AllGather", 2}}}, "b")}));
  EXPECT_THAT(report.text, HasSubstr("they wait for each other"));
  EXPECT_THAT(report.text, HasSubstr("AllReduce 6 of the NCCL communicator of 2 ranks"));
  EXPECT_THAT(report.text, HasSubstr("AllGather 2 of the NCCL communicator of 2 ranks"));
  EXPECT_THAT(report.blamed, ElementsAre(0, 1));
}

TEST(NcclVerdict, WhatHvdKnowsIsMoreThanWhatNcclDoes) {
  auto facts = facts_with({on_gpu("cudaStreamSynchronize", 88), in_loader()},
                          {communicator({{{"AllReduce", 5}}, {{"AllReduce", 6}}})});
  facts.waits = {{"allreduce grad", 75, {0}, {1}, ""}};
  EXPECT_THAT(judge_hang(facts).text, HasSubstr("rank 1 has not come to allreduce \"grad\""));
}

TEST(NcclVerdict, ARankThatDoesNotAnswerIsNamedIfNothingElseIsKnown) {
  auto even = communicator({{{"AllReduce", 6}}, {{"AllReduce", 6}}});
  even.members[1].silent = true;
  const auto on = on_gpu("cudaStreamSynchronize", 88);
  const auto report = judge_hang(facts_with({on, on}, {even}));
  EXPECT_THAT(report.text, HasSubstr("; rank 1 does not answer NCCL's RAS"));
  EXPECT_THAT(report.blamed, ElementsAre(1));
}

}  // namespace
}  // namespace hvdrun
