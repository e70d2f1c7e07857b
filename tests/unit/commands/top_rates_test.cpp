#include "commands/top_rates.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

// A job of so many ranks on one host. Its clock is not the launcher's.
JobNow look_at(double seconds, int ranks) {
  JobNow look;
  look.seconds = seconds;
  look.hosts.push_back(
      {.host = "n1", .state = "running", .clock = 1000 + seconds, .ranks = {}, .gpus = {}});
  for (int i = 0; i < ranks; ++i) {
    auto& rank = look.ranks.emplace_back();
    rank.rank = i;
    rank.pid = 100 + i;
    rank.state = "running";
  }
  return look;
}

TEST(TopRates, OneLookGivesNoRates) {
  TopRates rates;
  rates.add(look_at(5, 2));
  EXPECT_FALSE(rates.ranks()[0].cpu_percent);
  EXPECT_THAT(rates.hold_ups(), IsEmpty());
}

TEST(TopRates, RatesAreThoseOfTheTimeBetweenTheLooks) {
  TopRates rates;
  for (int second = 0; second <= 12; ++second) {
    auto look = look_at(second, 1);
    auto& rank = look.ranks[0];
    rank.cpu_seconds = second < 8 ? 0 : 0.5 * (second - 8);
    rank.samples = static_cast<std::uint64_t>(100 * second);
    rank.since_progress = 0;
    rank.collective_seconds = 1 + 0.25 * second;
    rank.waiting_seconds = 0.125 * second;
    rates.add(look);
  }
  const auto& of = rates.ranks()[0];
  EXPECT_THAT(of.cpu_percent, Optional(testing::DoubleNear(50, 1e-6)));
  EXPECT_THAT(of.samples_per_second, Optional(testing::DoubleNear(100, 1e-6)));
  EXPECT_THAT(of.collective_share, Optional(testing::DoubleNear(0.25, 1e-6)));
  EXPECT_THAT(of.waiting_share, Optional(testing::DoubleNear(0.125, 1e-6)));
}

TEST(TopRates, ARankThatWasRestartedIsNotComparedWithTheOneBefore) {
  TopRates rates;
  auto look = look_at(0, 2);
  look.ranks[0].cpu_seconds = 1000;
  rates.add(look);
  look = look_at(1, 2);
  look.ranks[0].pid = 7;
  look.ranks[1].cpu_seconds = 1;
  rates.add(look);
  EXPECT_FALSE(rates.ranks()[0].cpu_percent);
  EXPECT_TRUE(rates.ranks()[1].cpu_percent);
  look = look_at(2, 2);
  look.about.restarts = 1;
  rates.add(look);
  EXPECT_FALSE(rates.ranks()[1].cpu_percent);
}

TEST(TopRates, AHostThatDoesNotAnswerHasNoRates) {
  TopRates rates;
  rates.add(look_at(0, 1));
  auto look = look_at(1, 1);
  look.hosts[0].clock = 0;
  look.ranks[0].state = "unknown";
  rates.add(look);
  EXPECT_FALSE(rates.ranks()[0].cpu_percent);
  rates.add(look_at(2, 1));
  EXPECT_TRUE(rates.ranks()[0].cpu_percent);
}

TEST(TopRates, ARankThatHardlyWaitsHoldsUpTheOthers) {
  TopRates rates;
  for (int second = 0; second < 2; ++second) {
    auto look = look_at(second, 4);
    for (auto& rank : look.ranks) {
      rank.collective_seconds = 1 + 0.5 * second;
      rank.waiting_seconds = (rank.rank == 3 ? 0.01 : 0.4) * second;
    }
    rates.add(look);
  }
  EXPECT_THAT(rates.hold_ups(),
              ElementsAre("rank 3 on n1 is slow: the others wait 40 % of their time"));
  EXPECT_TRUE(rates.ranks()[3].holds_up);
  EXPECT_FALSE(rates.ranks()[0].holds_up);
}

TEST(TopRates, ARankThatOthersWaitForNowHoldsThemUp) {
  TopRates rates;
  auto look = look_at(0, 3);
  look.waits.push_back({"", "allreduce grad.3", 14, {0, 2}, {1}});
  rates.add(look);
  EXPECT_THAT(rates.hold_ups(), ElementsAre("rank 1 on n1 holds up ranks 0,2, which wait in "
                                            "allreduce grad.3 for 14 s"));
  EXPECT_TRUE(rates.ranks()[1].holds_up);
}

}  // namespace
}  // namespace hvdrun
