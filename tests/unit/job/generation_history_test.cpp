#include "job/generation_history.hpp"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// A job of so many members whose generations are noted.
class NotedJob {
 public:
  explicit NotedJob(std::uint32_t members) : generations_({}, places(members)), history_(members) {}

  void come(std::uint32_t member, std::uint64_t commits, double now,
            ComeReason why = ComeReason::failed) {
    MemberCome come;
    come.why = why;
    come.commits = commits;
    come.step = 10 * commits;
    note(generations_.came(member, come), now);
  }
  void wire_up(double now) {
    const auto state = generations_.state();
    for (const std::uint32_t exchange : {1, 2, 3})
      for (const auto member : state.list)
        note(generations_.took_part(member, state.generation, exchange, ""), now);
  }
  void lose(std::uint32_t member, double now) { note(generations_.lost(member, "died"), now); }
  std::uint32_t add_newcomer() { return generations_.add(0, 0); }
  GenerationHistory& history() { return history_; }

 private:
  static std::vector<MemberPlace> places(std::uint32_t members) {
    std::vector<MemberPlace> places;
    for (std::uint32_t i = 0; i < members; ++i) places.push_back({i, 0, i});
    return places;
  }
  void note(const Actions& actions, double now) {
    for (const auto& action : actions) history_.add(action, now);
  }

  Generations generations_;
  GenerationHistory history_;
};

using Members = std::vector<std::size_t>;

TEST(GenerationHistory, HasEachGenerationWithItsLossesAndTimes) {
  NotedJob job(3);
  for (const std::uint32_t member : {0, 1, 2}) job.come(member, 0, 1);
  job.wire_up(2);
  job.lose(0, 10);
  for (const std::uint32_t member : {1, 2}) job.come(member, 4, 11);
  job.wire_up(12.5);
  const auto generations = job.history().report(20).generations;
  ASSERT_EQ(generations.size(), 2u);
  EXPECT_EQ(generations[0].members, (Members{0, 1, 2}));
  EXPECT_EQ(generations[0].seconds, 9);
  EXPECT_EQ(generations[0].lost.at(0).member, 0u);
  EXPECT_TRUE(generations[0].committed);
  EXPECT_EQ(generations[1].number, 2u);
  EXPECT_EQ(generations[1].members, (Members{1, 2}));
  EXPECT_EQ(generations[1].joined, Members{});
  EXPECT_EQ(generations[1].step, 40u);
  EXPECT_EQ(generations[1].pause_seconds, 2.5);
  EXPECT_EQ(generations[1].seconds, 7.5);
  EXPECT_FALSE(generations[1].committed);
}

TEST(GenerationHistory, AGenerationHasCommittedIfAllItsSurvivorsHave) {
  NotedJob job(3);
  for (const std::uint32_t member : {0, 1, 2}) job.come(member, 5, 0);
  job.wire_up(0);
  job.lose(0, 0);
  job.come(1, 6, 0);
  job.come(2, 5, 0);
  EXPECT_FALSE(job.history().report(0).generations[0].committed);
  job.wire_up(0);
  job.history().committed(1, 7);
  EXPECT_FALSE(job.history().report(0).generations[1].committed);
  job.history().committed(2, 7);
  EXPECT_TRUE(job.history().report(0).generations[1].committed);
}

TEST(GenerationHistory, AGenerationWhoseAgentsWereLostHasCommittedIfItWasOpen) {
  NotedJob job(3);
  for (const std::uint32_t member : {0, 1, 2}) job.come(member, 0, 0);
  job.wire_up(0);
  job.lose(0, 0);
  for (const std::uint32_t member : {1, 2}) job.come(member, 1, 0);
  job.history().add(LostAgentReport{{1, 2}, "the agent on n2 was lost", 1});
  EXPECT_FALSE(job.history().report(2).generations[1].committed);
  job.wire_up(3);
  EXPECT_TRUE(job.history().report(4).generations[1].committed);
}

TEST(GenerationHistory, HasLossesBeforeTheFirstGeneration) {
  NotedJob job(2);
  job.lose(1, 0);
  job.come(0, 0, 0, ComeReason::start);
  const auto report = job.history().report(0);
  EXPECT_EQ(report.lost_at_start.at(0).member, 1u);
  EXPECT_EQ(report.generations.at(0).members, Members{0});
}

TEST(GenerationHistory, ANewcomerMayJoinTheFirstGeneration) {
  NotedJob job(2);
  const auto newcomer = job.add_newcomer();
  job.come(newcomer, 0, 1, ComeReason::start);
  job.lose(0, 2);
  job.come(1, 0, 3, ComeReason::start);
  job.wire_up(4);
  const auto generations = job.history().report(5).generations;
  ASSERT_EQ(generations.size(), 1u);
  EXPECT_EQ(generations[0].members, (Members{1, newcomer}));
  EXPECT_EQ(generations[0].joined, Members{newcomer});
}

TEST(GenerationHistory, ANewcomerHasJoined) {
  NotedJob job(2);
  for (const std::uint32_t member : {0, 1}) job.come(member, 0, 0);
  job.wire_up(0);
  job.lose(0, 0);
  job.come(job.add_newcomer(), 0, 0, ComeReason::start);
  job.come(1, 0, 0);
  const auto generation = job.history().report(0).generations.at(1);
  EXPECT_EQ(generation.members, (Members{1, 2}));
  EXPECT_EQ(generation.joined, Members{2});
}

// Returns what the ranks of this generation begin with.
action::Go generation_of(std::initializer_list<std::uint32_t> members) {
  action::Go go;
  for (const auto member : members) {
    go.go.ranks.push_back({member, 0, 0, {}});
    go.commits.push_back(0);
    go.steps.push_back(0);
  }
  return go;
}

TEST(GenerationHistory, HasOneResetForEachLossAndNoneForNewRanks) {
  GenerationHistory history(2);
  EXPECT_EQ(history.resets_with(generation_of({0, 1})), 0u);
  history.add(generation_of({0, 1}), 0);
  history.add(action::Lost{1, "died"}, 1);
  EXPECT_EQ(history.resets_with(generation_of({0})), 1u);
  EXPECT_EQ(history.resets_with(generation_of({0, 2})), 1u);
  history.add(generation_of({0}), 2);
  history.add(generation_of({0, 2}), 3);
  EXPECT_EQ(history.resets_with(generation_of({0, 2, 3})), 1u);
  EXPECT_EQ(history.resets_with(generation_of({0, 2})), 2u) << "a collective has failed";
}

}  // namespace
}  // namespace hvdrun
