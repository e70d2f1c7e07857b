// Compares the console with a simple, slow model: lines must not depend on how bytes are split.
#include "fixtures.hpp"
#include "line_model.hpp"

#include <map>
#include <random>

namespace hvdrun {
namespace {

// Returns the lines of each rank, without their labels "[R] ".
std::map<int, std::vector<std::string>> by_rank(std::string_view shown) {
  std::map<int, std::vector<std::string>> lines;
  while (!shown.empty()) {
    const std::size_t end = shown.find('\n') + 1;
    EXPECT_NE(end, 0u) << "a line without an end";
    EXPECT_EQ(shown[0], '[');
    EXPECT_EQ(shown.substr(2, 2), "] ");
    lines[shown[1] - '0'].emplace_back(shown.substr(4, end - 4));
    shown.remove_prefix(end);
  }
  return lines;
}

std::string random_text(std::mt19937& random) {
  using namespace std::string_view_literals;
  static constexpr std::string_view kWords[] = {"a",  "b",  "c",    "\r",   "\r",   "\n",
                                                "\n", "\n", "\0"sv, "[0] ", "\x1b", "\x1b[A"};
  std::string text;
  for (std::size_t i = random() % 200; i > 0; --i) text += kWords[random() % std::size(kWords)];
  return text;
}

TEST(ConsoleModel, LinesDoNotDependOnWhereTheTextIsSplit) {
  const std::string text =
      "one\ntwo\r\n\r\nthree\r33\rthird\n\n\r\rfour\r\r\n"
      "five\nsix\x1b[A\rseven\neight\nnine\x1b[A\r\nten\x1b[A\n\r11\n\r12\x1b[A\x1b[A\r13\n14";
  std::string expected;
  for (const auto& line : LineModel::lines(text)) expected += "[0] " + line;
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    TestConsole console;
    console.write(0, std::string_view(text).substr(0, cut));
    console.write(0, std::string_view(text).substr(cut));
    console.close(0);
    EXPECT_EQ(console.out(), expected) << "cut at " << cut;
  }
}

TEST(ConsoleModel, LinesOfSeveralRanksAreThoseOfTheModel) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    constexpr int kRanks = 3;
    std::string texts[kRanks];
    std::size_t at[kRanks] = {};
    for (auto& text : texts) text = random_text(random);
    TestConsole console({.ranks = kRanks});
    for (int open = kRanks; open > 0;) {
      const auto rank = random() % kRanks;
      if (at[rank] > texts[rank].size()) continue;
      const std::size_t length = random() % 40;
      const auto piece = std::string_view(texts[rank]).substr(at[rank], length);
      console.write(static_cast<int>(rank), piece);
      at[rank] += piece.size();
      if (at[rank] < texts[rank].size()) continue;
      console.close(static_cast<int>(rank));
      at[rank] = texts[rank].size() + 1;
      --open;
    }
    auto lines = by_rank(console.out());
    for (int rank = 0; rank < kRanks; ++rank)
      ASSERT_EQ(lines[rank], LineModel::lines(texts[rank])) << "seed " << seed << ", rank " << rank;
  }
}

TEST(ConsoleModel, LosesAndMixesNothingWhenTimeoutsExpire) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    constexpr int kRanks = 3;
    std::string written[kRanks];
    TestConsole console({.ranks = kRanks});
    for (int step = 0; step < 60; ++step) {
      const auto rank = random() % kRanks;
      std::string piece = random_text(random).substr(0, 20);
      std::replace(piece.begin(), piece.end(), '\r', '.');
      console.write(static_cast<int>(rank), piece);
      written[rank] += piece;
      if (random() % 2 == 0) console.pass(std::chrono::milliseconds(random() % 400));
    }
    for (int rank = 0; rank < kRanks; ++rank) console.close(rank);
    auto lines = by_rank(console.out());
    for (int rank = 0; rank < kRanks; ++rank) {
      // Timeouts may have broken lines, so newlines are not compared. All other bytes are.
      std::string shown;
      for (const auto& line : lines[rank]) shown += line;
      std::erase(shown, '\n');
      std::erase(written[rank], '\n');
      ASSERT_EQ(shown, written[rank]) << "seed " << seed << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace hvdrun
