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

TEST(TopScreen, AFoldedHostHasTheRanksOfTheJob) {
  JobNow look;
  for (const auto* host : {"n1", "n2", "n3"})
    look.hosts.push_back({.host = host, .state = "running", .clock = 5, .ranks = {}, .gpus = {}});
  const auto add = [&look](int host, const char* role) {
    auto& rank = look.ranks.emplace_back();
    rank.rank = static_cast<int>(look.ranks.size()) - 1;
    rank.host = host;
    rank.role = role;
    rank.memory_bytes = 1 << 20;
    if (rank.role == "lost") rank.end = "killed by SIGKILL";
  };
  add(0, "lost");
  add(0, "member");
  add(0, "member");
  add(0, "spare");
  add(0, "spare");
  add(2, "lost");
  TopRates rates;
  rates.add(look);
  TopView view;
  view.folds_hosts = true;
  const auto table = top_table(rates, view, 0);
  EXPECT_EQ(words_of(table[1].text).front(), "1-2");
  EXPECT_THAT(table[1].text, testing::EndsWith("  running, spare ranks 3-4, lost rank 0"));
  EXPECT_THAT(table[1].text, testing::HasSubstr("  2 MB  ")) << "of the ranks in the job";
  EXPECT_EQ(words_of(table[2].text).front(), "-") << "it has no ranks";
  EXPECT_THAT(table[3].text, testing::EndsWith("  running, lost rank 5"));
  EXPECT_THAT(top_order(rates, view), ElementsAre(1, -1, 5));
}

}  // namespace
}  // namespace hvdrun
