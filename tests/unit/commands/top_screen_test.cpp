#include "commands/top_screen.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;

// A job of two ranks, of which the second holds up the first.
TopRates of_two_ranks() {
  JobNow look;
  look.about.pid = 8311;
  look.seconds = 5;
  look.hosts.push_back({.host = "n1", .state = "running", .clock = 5, .ranks = {}, .gpus = {}});
  for (int i = 0; i < 2; ++i) {
    auto& rank = look.ranks.emplace_back();
    rank.rank = i;
    rank.pid = 100 + i;
    rank.state = "running";
  }
  look.waits.push_back({.text = "rank 0 has waited 5 s",
                        .collective = "allreduce",
                        .seconds = 5,
                        .waiting = {0},
                        .missing = {1}});
  TopRates rates;
  rates.add(look);
  return rates;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const auto end = std::min(line.find(' ', at), line.size());
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

TEST(TopScreen, ANarrowScreenHasTheColumnsThatSayMost) {
  const auto rates = of_two_ranks();
  EXPECT_THAT(words_of(top_table(rates, {}, 0)[0].text),
              ElementsAre("RANK", "HOST", "PID", "STEP", "SAMPLES/S", "COLL%", "WAIT%", "CPU%",
                          "MEMORY", "STATE"));
  const auto narrow = top_table(rates, {}, 40);
  EXPECT_THAT(words_of(narrow[0].text),
              ElementsAre("RANK", "HOST", "STEP", "WAIT%", "CPU%", "STATE"));
  EXPECT_NE(narrow[2].text.substr(0, 40).find("<< holds"), std::string::npos) << narrow[2].text;
  EXPECT_THAT(words_of(top_table(rates, {}, 1)[0].text), ElementsAre("RANK", "WAIT%", "STATE"));
}

}  // namespace
}  // namespace hvdrun
