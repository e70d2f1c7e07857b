// Searches all orders in which things can happen between the real Generations value and its members
// (generations_world.hpp), breadth first.
//
// In each state that can be reached: two members in a generation have the same list. Generations
// only grow. No member is in a generation whose list lacks it, or opens one before all have done
// the last exchange. No living member is left out. When nothing more happens, all living members
// are in the same open generation. Faults that are planted on purpose show that the search finds
// such states.
#include "job/generations_world.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun::model {
namespace {

// Hashes that were seen: an open table, faster than std::unordered_set here.
class Seen {
 public:
  bool insert(std::uint64_t hash) {
    if (2 * ++count_ > table_.size()) grow();
    return place(hash == 0 ? 1 : hash);
  }

 private:
  bool place(std::uint64_t hash) {
    for (auto at = hash >> shift_;; at = (at + 1) & (table_.size() - 1)) {
      if (table_[at] == hash) return false;
      if (table_[at] != 0) continue;
      table_[at] = hash;
      return true;
    }
  }
  void grow() {
    const auto old = std::exchange(table_, std::vector<std::uint64_t>(2 * table_.size()));
    --shift_;
    for (const auto hash : old)
      if (hash != 0) place(hash);
  }
  int shift_ = 64 - 16;
  std::vector<std::uint64_t> table_ = std::vector<std::uint64_t>(1 << 16);
  std::size_t count_ = 0;
};

struct Outcome {
  std::size_t states = 0;
  std::string violation;  // with the steps that lead to it; empty: there is none
};

Outcome search(const Scenario& scenario) {
  Outcome outcome;
  std::vector<Step> steps(1);  // that lead to each state, by its number
  const auto report = [&](const std::string& what, std::uint32_t at) {
    std::vector<std::string> lines;
    for (; at != 0; at = steps[at].before) lines.push_back(describe(steps[at]));
    std::reverse(lines.begin(), lines.end());
    for (const auto& line : lines) outcome.violation += line + "\n";
    outcome.violation += what;
  };
  Seen seen;
  std::vector<std::pair<World, std::uint32_t>> now;
  std::vector<std::pair<World, std::uint32_t>> next;
  now.emplace_back(World(scenario), 0);
  seen.insert(now.front().first.hash());
  while (!now.empty()) {
    for (const auto& [world, number] : now) {
      bool quiet = true;
      world.for_each_step([&, from = number](World&& after, Step step, bool must) {
        quiet = quiet && !must;
        if (!seen.insert(after.hash()) || !outcome.violation.empty()) return;
        step.before = from;
        steps.push_back(step);
        const auto reached = static_cast<std::uint32_t>(steps.size() - 1);
        if (!after.violation().empty()) report(after.violation(), reached);
        next.emplace_back(std::move(after), reached);
      });
      if (quiet && outcome.violation.empty())
        if (const auto why = world.why_stuck(); !why.empty()) report(why, number);
      if (!outcome.violation.empty()) return outcome;
    }
    std::swap(now, next);
    next.clear();
  }
  outcome.states = steps.size();
  return outcome;
}

// --- the scenarios -------------------------------------------------------------------------------

struct Case {
  const char* name;
  Scenario scenario;
};

class GenerationsModel : public testing::TestWithParam<Case> {};

TEST_P(GenerationsModel, HasNoViolation) {
  const auto outcome = search(GetParam().scenario);
  EXPECT_EQ(outcome.violation, "");
  RecordProperty("states", static_cast<int>(outcome.states));
}

constexpr auto name_of = [](const testing::TestParamInfo<Case>& one) { return one.param.name; };

INSTANTIATE_TEST_SUITE_P(
    Small, GenerationsModel,
    testing::Values(
        Case{"DeathsAndANewcomer", {.newcomers = 1, .deaths = 2}},
        Case{"DeathsAResetAndTheEnd", {.deaths = 2, .resets = 1, .ends = 1}},
        Case{"ACutADeathAResetAndTheEnd", {.deaths = 1, .cuts = 1, .resets = 1, .ends = 1}},
        Case{"ANewcomerADeathAndTheEnd", {.newcomers = 1, .deaths = 1, .ends = 1}},
        Case{"ARestartOfHvd", {.deaths = 1, .restarts = 1}},
        Case{"TooFew", {.members = 2, .newcomers = 1, .deaths = 2, .deadlines = true, .min = 2}},
        Case{"AFullJob", {.newcomers = 1, .deaths = 1, .resets = 1, .max = 3}},
        Case{"Deadlines", {.deaths = 1, .resets = 1, .deadlines = true}},
        Case{"OnlyTheLauncherSeesDeaths", {.deaths = 2, .resets = 1, .sees_failures = false}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Large, GenerationsModel,
    testing::Values(Case{"DeathsANewcomerAndAReset", {.newcomers = 1, .deaths = 2, .resets = 1}},
                    Case{"TwoNewcomers", {.members = 2, .newcomers = 2, .deaths = 2}},
                    Case{"FourMembers", {.members = 4, .deaths = 2, .resets = 1}},
                    Case{"Everything",
                         {.newcomers = 1, .deaths = 1, .cuts = 1, .resets = 1, .ends = 1}}),
    name_of);

struct Planted {
  const char* name;
  Fault fault;
  Scenario scenario;
  const char* violation;
};

class PlantedFault : public testing::TestWithParam<Planted> {};

TEST_P(PlantedFault, IsFound) {
  auto scenario = GetParam().scenario;
  EXPECT_EQ(search(scenario).violation, "") << "without the fault";
  scenario.fault = GetParam().fault;
  const auto found = search(scenario).violation;
  EXPECT_NE(found.find(GetParam().violation), std::string::npos) << found;
}

INSTANTIATE_TEST_SUITE_P(
    Each, PlantedFault,
    testing::Values(
        Planted{"KeepsThoseWhoCame",
                Fault::keeps_those_who_came,
                {.deaths = 1},
                "`go` comes to a member that has not come"},
        Planted{"DoesNotWait", Fault::does_not_wait, {.deaths = 1}, "a living member is left out"},
        Planted{
            "DoesNotWaitForParts", Fault::does_not_wait_for_parts, {}, "before all have wired up"},
        Planted{"ForgetsLosses", Fault::forgets_losses, {.deaths = 1}, "waits for ever"},
        Planted{"ForgetsLossesBeforeCome",
                Fault::forgets_losses_before_come,
                {.deaths = 1},
                "waits for ever"},
        Planted{"SaysNoOver",
                Fault::says_no_over,
                {.deaths = 1, .sees_failures = false},
                "waits for ever"},
        Planted{"SaysNoUpdated",
                Fault::says_no_updated,
                {.members = 2, .newcomers = 1},
                "a newcomer waits for ever"}),
    [](const testing::TestParamInfo<Planted>& planted) { return planted.param.name; });

}  // namespace
}  // namespace hvdrun::model
