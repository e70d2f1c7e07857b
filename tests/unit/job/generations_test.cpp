// The life of a job whose ranks may be lost, as the actions that Generations returns.
#include "job/generations.hpp"

#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using Lines = std::vector<std::string>;
using Phase = Generations::Phase;

struct ActionText {
  std::string operator()(const action::Lost&) const { return {}; }
  std::string operator()(const action::Over& action) const {
    std::string lost;
    for (const auto& one : action.over.lost) lost += fmt::format(" {} {}", one.member, one.text);
    return fmt::format("over {} to {}:{}", action.over.generation, fmt::join(action.to, ","),
                       lost.empty() ? " failed" : lost);
  }
  std::string operator()(const action::Go& action) const {
    std::vector<std::uint32_t> members;
    for (const auto& rank : action.go.ranks) members.push_back(rank.member);
    return fmt::format("go {}: {}", action.go.generation, fmt::join(members, ","));
  }
  std::string operator()(const action::Parts& action) const {
    return fmt::format("parts {} of {} to {}: {}", action.parts.exchange, action.parts.generation,
                       fmt::join(action.to, ","), fmt::join(action.parts.blobs, " "));
  }
  std::string operator()(const action::Opened& action) const {
    return fmt::format("opened {}", action.generation);
  }
  std::string operator()(const action::Updated& action) const {
    return fmt::format("updated to {}", fmt::join(action.to, ","));
  }
  std::string operator()(const action::Removed& action) const {
    return fmt::format("removed {}: {}", action.member, action.text);
  }
  std::string operator()(const action::EndMember& action) const {
    return fmt::format("end {}: {}", action.member, action.text);
  }
  std::string operator()(const action::CannotContinue& action) const {
    return fmt::format("cannot continue {}", static_cast<int>(action.why));
  }
};

// Leaves out action::Lost, which `over` repeats.
Lines text(const Actions& actions) {
  Lines lines;
  for (const auto& action : actions)
    if (!std::holds_alternative<action::Lost>(action))
      lines.push_back(std::visit(ActionText(), action));
  return lines;
}

const Lines kAllLost{"cannot continue 0"};
const Lines kTooFew{"cannot continue 1"};
const Lines kWiringFails{"cannot continue 2"};

// A job of so many members on one host, or with so many on each of several hosts.
class Job {
 public:
  explicit Job(std::uint32_t members, Generations::Limits limits = {},
               std::uint32_t on_a_host = 100)
      : generations(limits, places(members, on_a_host)) {}

  Lines come(std::uint32_t member, ComeReason why, const MemberCome& rest = {}) {
    auto come = rest;
    come.why = why;
    return text(generations.came(member, come));
  }
  Lines failed(std::uint32_t member) { return come(member, ComeReason::failed); }
  Lines asked(std::uint32_t member) { return come(member, ComeReason::asked); }
  Lines start(std::uint32_t member) { return come(member, ComeReason::start); }
  Lines accuse(std::uint32_t member, std::uint32_t accused) {
    MemberCome come;
    come.accused = accused;
    return this->come(member, ComeReason::failed, come);
  }
  Lines part(std::uint32_t member, std::uint32_t exchange) {
    return part(member, generations.state().generation, exchange);
  }
  Lines part(std::uint32_t member, std::uint32_t generation, std::uint32_t exchange) {
    return text(
        generations.took_part(member, generation, exchange, std::string(1, 'a' + char(member))));
  }
  Lines lost(std::uint32_t member) { return text(generations.lost(member, "was killed")); }

  // All members of the list wire up. Returns the last actions.
  Lines wire_up() {
    Lines last;
    const auto list = generations.state().list;
    for (const std::uint32_t exchange : {1, 2, 3})
      for (const auto member : list) last = part(member, exchange);
    return last;
  }
  void begin() {
    for (const auto member : std::vector(generations.state().list)) start(member);
    wire_up();
  }

  Generations generations;

 private:
  static std::vector<MemberPlace> places(std::uint32_t members, std::uint32_t on_a_host) {
    std::vector<MemberPlace> places;
    for (std::uint32_t i = 0; i < members; ++i) places.push_back({i, i / on_a_host, i % on_a_host});
    return places;
  }
};

// --- the first generation ------------------------------------------------------------------------

TEST(Generations, TheFirstBeginsWhenAllMembersHaveCome) {
  Job job(3);
  EXPECT_EQ(job.start(2), Lines{});
  EXPECT_EQ(job.start(0), Lines{});
  EXPECT_EQ(job.start(1), Lines{"go 1: 0,1,2"});
}

TEST(Generations, AnExchangeGivesEachMemberThePartsOfAll) {
  Job job(2);
  job.start(0);
  job.start(1);
  EXPECT_EQ(job.part(1, 1), Lines{});
  EXPECT_EQ(job.part(0, 1), Lines{"parts 1 of 1 to 0,1: a b"});
  EXPECT_EQ(job.part(0, 2), Lines{});
  EXPECT_EQ(job.part(1, 2), Lines{"parts 2 of 1 to 0,1: a b"});
  job.part(0, 3);
  EXPECT_EQ(job.part(1, 3), (Lines{"parts 3 of 1 to 0,1: a b", "opened 1"}));
  EXPECT_EQ(job.generations.state().phase, Phase::open);
}

TEST(Generations, AMemberMayComeWithWhatItGivesToTheFirstExchange) {
  Job job(1);
  MemberCome come;
  come.record = "here";
  const auto actions = job.generations.came(0, come);
  ASSERT_EQ(text(actions), Lines{"go 1: 0"});
  EXPECT_EQ(std::get<action::Go>(actions[0]).go.ranks[0].record, "here");
  job.part(0, 2);
  EXPECT_EQ(job.part(0, 3), (Lines{"parts 3 of 1 to 0: a", "opened 1"}));
}

TEST(Generations, AMemberThatIsLostBeforeTheFirstIsNotAwaited) {
  Job job(3);
  job.start(0);
  EXPECT_EQ(job.lost(1), Lines{"over 1 to 2: 1 was killed"});
  EXPECT_EQ(job.start(2), Lines{"go 1: 0,2"});
}

// --- losses --------------------------------------------------------------------------------------

TEST(Generations, AfterALossTheOthersFormTheNext) {
  Job job(3);
  job.begin();
  EXPECT_EQ(job.lost(1), Lines{"over 2 to 0,2: 1 was killed"});
  EXPECT_EQ(job.failed(0), Lines{});
  EXPECT_EQ(job.failed(2), Lines{"go 2: 0,2"});
  EXPECT_EQ(job.wire_up(), (Lines{"parts 3 of 2 to 0,2: a c", "opened 2"}));
}

TEST(Generations, AMemberMayComeBeforeTheLossIsKnown) {
  Job job(3);
  job.begin();
  EXPECT_EQ(job.failed(0), Lines{"over 2 to 1,2: failed"});
  EXPECT_EQ(job.lost(1), Lines{"over 2 to 2: 1 was killed"});
  EXPECT_EQ(job.failed(2), Lines{"go 2: 0,2"});
}

TEST(Generations, AMemberThatHasComeAndIsLostIsNotInTheNext) {
  Job job(3);
  job.begin();
  job.failed(0);
  job.failed(1);
  EXPECT_EQ(job.lost(1), Lines{"over 2 to 2: 1 was killed"});
  EXPECT_EQ(job.failed(2), Lines{"go 2: 0,2"});
}

TEST(Generations, ALossInTheWireUpBeginsAnother) {
  Job job(3);
  for (const std::uint32_t member : {0, 1, 2}) job.start(member);
  job.part(0, 1);
  EXPECT_EQ(job.lost(1), Lines{"over 2 to 0,2: 1 was killed"});
  EXPECT_EQ(job.part(2, 1, 1), Lines{}) << "it belongs to a generation that is over";
  job.failed(0);
  EXPECT_EQ(job.failed(2), Lines{"go 2: 0,2"});
}

TEST(Generations, APartOfAGenerationThatIsOverHasNoEffect) {
  Job job(2);
  job.begin();
  job.failed(0);
  job.failed(1);
  EXPECT_EQ(job.part(0, 1, 1), Lines{});
  EXPECT_EQ(job.generations.state().exchange, 0u);
}

TEST(Generations, AHostThatIsGivenUpIsOneLoss) {
  Job job(4, {}, 2);
  job.begin();
  EXPECT_EQ(text(job.generations.host_given_up(1, "was on a lost host")),
            Lines{"over 2 to 0,1: 2 was on a lost host 3 was on a lost host"});
}

TEST(Generations, WhatALostMemberSendsHasNoEffect) {
  Job job(2);
  job.begin();
  job.lost(1);
  EXPECT_EQ(job.failed(1), Lines{});
  EXPECT_EQ(job.part(1, 1), Lines{});
  EXPECT_EQ(job.lost(1), Lines{});
  EXPECT_EQ(job.failed(0), Lines{"go 2: 0"});
}

TEST(Generations, WithoutSurvivorsTheJobEnds) {
  Job job(2);
  job.begin();
  job.lost(0);
  EXPECT_EQ(job.lost(1), kAllLost);
  EXPECT_EQ(job.generations.state().phase, Phase::ended);
}

TEST(Generations, ALateMemberIsEndedAndLost) {
  Job job(3);
  job.begin();
  job.lost(0);
  job.failed(1);
  EXPECT_TRUE(job.generations.waits_for_members());
  EXPECT_EQ(text(job.generations.members_deadline_passed("did not come")),
            (Lines{"end 2: did not come", "go 2: 1"}));
  EXPECT_EQ(job.failed(2), Lines{});
}

TEST(Generations, AMemberWhosePartIsMissingIsLateToo) {
  Job job(2);
  job.start(0);
  job.start(1);
  EXPECT_FALSE(job.generations.waits_for_members());
  job.part(0, 1);
  EXPECT_TRUE(job.generations.waits_for_members());
  EXPECT_EQ(text(job.generations.members_deadline_passed("did not come")),
            (Lines{"end 1: did not come", "over 2 to 0: 1 did not come"}));
}

TEST(Generations, AMemberThatTakesPartInAnExchangeTwiceIsEnded) {
  Job job(2);
  job.start(0);
  job.start(1);
  job.part(0, 1);
  EXPECT_EQ(
      job.part(0, 1),
      (Lines{"end 0: took part in exchange 1 of generation 1 when it should not have",
             "over 2 to 1: 0 took part in exchange 1 of generation 1 when it should not have"}));
}

// --- the state of the training -------------------------------------------------------------------

TEST(Generations, TheRootHasTheMostCommits) {
  Job job(3);
  job.begin();
  job.lost(0);
  MemberCome come;
  come.commits = 7;
  job.come(1, ComeReason::failed, come);
  come.commits = 8;
  come.why = ComeReason::failed;
  const auto actions = job.generations.came(2, come);
  ASSERT_EQ(text(actions), Lines{"go 2: 1,2"});
  EXPECT_EQ(std::get<action::Go>(actions[0]).go.root, 1u);
}

TEST(Generations, AmongEqualsTheRootIsTheLowestRank) {
  Job job(2);
  job.start(0);
  const auto actions = job.generations.came(1, {});
  EXPECT_EQ(std::get<action::Go>(actions.at(0)).go.root, 0u);
}

// --- resets that members agree on ----------------------------------------------------------------

TEST(Generations, MembersThatHaveAgreedComeWithoutOver) {
  Job job(2);
  job.begin();
  EXPECT_EQ(job.asked(0), Lines{});
  EXPECT_EQ(job.asked(1), Lines{"go 2: 0,1"});
}

TEST(Generations, ALossAfterAnAgreementIsAnnouncedToThoseThatHaveNotCome) {
  Job job(3);
  job.begin();
  job.asked(0);
  EXPECT_EQ(job.lost(1), Lines{"over 2 to 2: 1 was killed"});
  EXPECT_EQ(job.failed(2), Lines{"go 2: 0,2"});
}

// --- members that leave --------------------------------------------------------------------------

TEST(Generations, AMemberThatHasLeftIsNotAwaited) {
  Job job(3);
  job.begin();
  job.generations.left(0);
  EXPECT_EQ(job.lost(1), Lines{"over 2 to 2: 1 was killed"});
  EXPECT_EQ(job.failed(2), Lines{"go 2: 2"});
}

TEST(Generations, TheLossOfAMemberThatHasLeftDisturbsNoOther) {
  Job job(2);
  job.begin();
  job.generations.left(0);
  EXPECT_EQ(job.lost(0), Lines{});
  EXPECT_EQ(job.generations.state().phase, Phase::open);
}

TEST(Generations, MembersThatLeaveAndStartAgainAwaitEachOther) {
  Job job(2);
  job.begin();
  job.generations.left(0);
  job.generations.left(1);
  EXPECT_EQ(job.start(0), Lines{});
  EXPECT_EQ(job.start(1), Lines{"go 2: 0,1"});
}

TEST(Generations, AMemberThatHasStartedAgainIsOneOfTheMinimum) {
  Job job(3, {3, 3, false});
  job.begin();
  job.generations.left(1);
  job.failed(0);
  EXPECT_EQ(job.failed(2), Lines{"go 2: 0,2"}) << "member 1 seems to be at its end";
  job.wire_up();
  EXPECT_EQ(job.start(1), Lines{"updated to 0,2"});
  EXPECT_EQ(job.asked(0), Lines{});
  EXPECT_EQ(job.asked(2), Lines{"go 3: 0,2,1"});
}

TEST(Generations, AMemberThatExitsInsteadOfStartingAgainIsNotAwaited) {
  Job job(2);
  job.begin();
  job.generations.left(0);
  job.generations.left(1);
  job.start(0);
  EXPECT_EQ(text(job.generations.finished(1)), Lines{"go 2: 0"});
}

TEST(Generations, AMemberThatHasLeftAndLingersIsNotEnded) {
  Job job(2);
  job.begin();
  job.generations.left(0);
  job.generations.left(1);
  job.start(0);
  EXPECT_EQ(text(job.generations.members_deadline_passed("did not come")), Lines{"go 2: 0"});
}

TEST(Generations, AMemberThatWasNotAskedToComeIsAskedBeforeItIsLate) {
  Job job(2);
  job.begin();
  job.generations.left(0);
  job.start(0);  // again, while the other one trains
  EXPECT_TRUE(job.generations.waits_for_members());
  EXPECT_EQ(text(job.generations.members_deadline_passed("did not come")),
            Lines{"over 2 to 1: failed"});
  EXPECT_EQ(text(job.generations.members_deadline_passed("did not come")),
            (Lines{"end 1: did not come", "go 2: 0"}));
}

TEST(Generations, AMemberThatExitsWithoutLeavingEndsTheGeneration) {
  Job job(2);
  job.begin();
  EXPECT_EQ(text(job.generations.finished(0)), Lines{"over 2 to 1: 0 exited without hvd_shutdown"});
}

TEST(Generations, AJobWhoseMembersFinishJustEnds) {
  Job job(2);
  job.begin();
  for (const std::uint32_t member : {0, 1}) {
    job.generations.left(member);
    EXPECT_EQ(text(job.generations.finished(member)), Lines{});
  }
}

TEST(Generations, AMemberThatHasFinishedIsNotLostWithItsHost) {
  Job job(2);
  job.begin();
  job.generations.left(0);
  job.generations.finished(0);
  job.lost(0);
  EXPECT_EQ(job.generations.state().members[0].state, Generations::Member::State::finished);
}

// --- the least members ---------------------------------------------------------------------------

TEST(Generations, BelowTheMinimumItWaitsForNewcomers) {
  Job job(2, {2, 2});
  job.begin();
  job.lost(1);
  EXPECT_EQ(job.failed(0), Lines{});
  EXPECT_TRUE(job.generations.waits_for_newcomers());
  EXPECT_EQ(job.generations.add(0, 1), 2u);
  EXPECT_EQ(job.start(2), Lines{"go 2: 0,2"});
}

TEST(Generations, BelowTheMinimumItEndsWithoutNewcomers) {
  Job job(2, {2, 2});
  job.begin();
  job.lost(1);
  EXPECT_FALSE(job.generations.waits_for_newcomers()) << "member 0 has not come yet";
  job.failed(0);
  EXPECT_EQ(text(job.generations.newcomers_deadline_passed()), kTooFew);
}

TEST(Generations, OnceAMemberHasFinishedTheMinimumDoesNotApply) {
  Job job(3, {2, 3});
  job.begin();
  job.generations.left(0);
  job.generations.finished(0);
  job.lost(1);
  EXPECT_EQ(job.failed(2), Lines{"go 2: 2"});
}

// --- newcomers -----------------------------------------------------------------------------------

TEST(Generations, ANewcomerIsAnnouncedAndTakenInWhenTheMembersCome) {
  Job job(2);
  job.begin();
  job.generations.add(0, 2);
  EXPECT_EQ(job.start(2), Lines{"updated to 0,1"});
  job.asked(1);
  EXPECT_EQ(job.asked(0), Lines{"go 2: 0,1,2"});
}

TEST(Generations, ANewcomerDuringTheWireUpIsAnnouncedAfterwards) {
  Job job(1);
  job.generations.add(0, 1);
  job.start(0);
  EXPECT_EQ(job.start(1), Lines{});
  EXPECT_EQ(job.wire_up(), (Lines{"parts 3 of 1 to 0: a", "opened 1", "updated to 0"}));
}

TEST(Generations, ANewcomerThatIsLostIsNoLossOfTheGeneration) {
  Job job(2);
  job.begin();
  job.generations.add(0, 2);
  job.start(2);
  EXPECT_EQ(job.lost(2), Lines{});
  job.asked(0);
  EXPECT_EQ(job.asked(1), Lines{"go 2: 0,1"});
}

TEST(Generations, NewcomersThatWaitEndWithTheLastMemberThatHasLeftAndFails) {
  Job job(2);
  job.begin();
  job.lost(1);
  job.failed(0);
  job.wire_up();
  job.generations.add(0, 1);
  EXPECT_EQ(job.start(2), Lines{"updated to 0"});
  job.generations.left(0);
  EXPECT_EQ(job.lost(0), kAllLost);
}

TEST(Generations, AFullJobTakesNoNewcomerIn) {
  Job job(2, {1, 2});
  job.begin();
  job.generations.add(0, 2);
  EXPECT_EQ(job.start(2), Lines{});
  EXPECT_EQ(job.lost(1), Lines{"over 2 to 0: 1 was killed"});
  EXPECT_EQ(job.failed(0), Lines{"go 2: 0,2"});
}

TEST(Generations, ANewcomersLikelyNumbersHaveItsSlotAndNeverRankZero) {
  Job job(4, {1, 4});
  job.begin();
  const auto text_of = [&](std::uint32_t host, std::uint32_t slot) {
    const auto numbers = job.generations.planned(host, slot);
    return fmt::format("{}/{} {}/{}", numbers.rank, numbers.size, numbers.local_rank,
                       numbers.local_size);
  };
  EXPECT_EQ(text_of(0, 4), "3/4 4/5") << "a spare of a full job";
  job.lost(0);
  EXPECT_EQ(text_of(0, 0), "1/4 0/4");
  job.lost(2);
  job.lost(3);
  EXPECT_EQ(text_of(0, 3), "1/2 3/4");
  EXPECT_EQ(text_of(1, 0), "1/2 0/1");
}

TEST(Generations, OnceAMemberHasFinishedNewcomersAreRemoved) {
  Job job(2);
  job.begin();
  job.generations.add(0, 2);
  job.generations.add(0, 3);
  job.start(2);
  job.generations.left(0);
  EXPECT_EQ(text(job.generations.finished(0)), Lines{"removed 2: the first ranks have finished"});
  EXPECT_EQ(job.start(3), Lines{"removed 3: the first ranks have finished"});
}

TEST(Generations, ANewcomerThatExitsWithoutComingChangesNothing) {
  Job job(2, {2, 3});
  job.begin();
  job.generations.add(0, 2);
  EXPECT_EQ(text(job.generations.finished(2)), Lines{});
  EXPECT_FALSE(job.generations.state().finish_began);
}

// --- wire-ups that fail --------------------------------------------------------------------------

TEST(Generations, AHostThatOthersCannotReachIsLeftOut) {
  Job job(6, {}, 2);
  for (std::uint32_t member = 0; member < 6; ++member) job.start(member);
  for (int wiring = 0; wiring < 2; ++wiring) {
    job.accuse(0, 2);
    job.accuse(1, 3);
    job.accuse(4, 2);
    job.accuse(5, 2);
    job.accuse(2, 4);
    if (wiring == 0) {
      EXPECT_EQ(job.accuse(3, 4), Lines{"go 2: 0,1,2,3,4,5"});
    }
  }
  const std::string text = "could not be reached by ranks of other hosts";
  EXPECT_EQ(job.accuse(3, 4), (Lines{"end 2: " + text, "end 3: " + text, "go 3: 0,1,4,5"}));
}

// All members agree in the last exchange that one could not connect.
TEST(Generations, AHostIsLeftOutIfMembersAgreeThatItCannotBeReached) {
  Job job(3, {}, 1);
  for (std::uint32_t member = 0; member < 3; ++member) job.start(member);
  const auto cannot_connect = [&job](std::uint32_t member, std::uint32_t to) {
    MemberCome come;
    come.failure = common::SeenFailure::unconnected;
    come.accused = to;
    return job.come(member, ComeReason::failed, come);
  };
  for (int wiring = 0; wiring < 2; ++wiring) {
    job.wire_up();
    cannot_connect(0, common::kNoMember);
    cannot_connect(1, 2);
    if (wiring == 0) {
      EXPECT_EQ(cannot_connect(2, 1), Lines{"go 2: 0,1,2"});
    }
  }
  EXPECT_EQ(cannot_connect(2, 1),
            (Lines{"end 2: could not be reached by ranks of other hosts", "go 3: 0,1"}));
}

TEST(Generations, AWireUpThatFailsAgainAndAgainEndsTheJob) {
  Job job(2);
  Lines last = (job.start(0), job.start(1));
  for (int wiring = 0; wiring < 4; ++wiring) {
    job.failed(0);
    last = job.failed(1);
    EXPECT_EQ(last, Lines{fmt::format("go {}: 0,1", wiring + 2)});
  }
  job.failed(0);
  EXPECT_EQ(job.failed(1), kWiringFails);
}

}  // namespace
}  // namespace hvdrun
