#include "output/last_lines.hpp"

#include <random>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(std::initializer_list<std::string_view> chunks) {
  LastLines lines;
  for (const auto chunk : chunks) lines.add(chunk);
  return lines.lines();
}

std::string numbered(int first, int last) {
  std::string text;
  for (int i = first; i <= last; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST(LastLines, KeepsTheLastTwentyInOrder) {
  EXPECT_EQ(lines_of({}), Lines{});
  EXPECT_EQ(lines_of({"a\nb\n"}), (Lines{"a", "b"}));
  const Lines kept = lines_of({numbered(1, 1000)});
  ASSERT_EQ(kept.size(), LastLines::kLines);
  EXPECT_EQ(kept.front(), "981");
  EXPECT_EQ(kept.back(), "1000");
}

TEST(LastLines, IncludesAnUnfinishedLine) {
  const Lines kept = lines_of({numbered(1, 20), "and then"});
  ASSERT_EQ(kept.size(), LastLines::kLines);
  EXPECT_EQ(kept.front(), "2");
  EXPECT_EQ(kept.back(), "and then");
}

TEST(LastLines, TruncatesLongLines) {
  const std::string tail(LastLines::kLength, 'x');
  EXPECT_EQ(lines_of({tail + "yyy\nz\n"}), (Lines{tail, "z"}));
  EXPECT_EQ(lines_of({tail, "yyy", "yyy\nz\n"}), (Lines{tail, "z"}));
}

TEST(LastLines, KeepsTheLastTextOfAProgressBar) {
  EXPECT_EQ(lines_of({"10%\r50%\r100%\n", "\r1\r2", "\r3"}), (Lines{"100%", "3"}));
  EXPECT_EQ(lines_of({"windows\r\n", "split\r", "\n", "50%\r", "60%\r"}),
            (Lines{"windows", "split", "60%"}));
}

TEST(LastLines, DoNotDependOnHowTheBytesAreSplit) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (std::size_t i = random() % 400; i > 0; --i) text += "ab\r\n\n"[random() % 5];
    const Lines whole = lines_of({text});
    LastLines cut;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random() % 60;
      cut.add(std::string_view(text).substr(at, length));
      at += length;
    }
    ASSERT_EQ(cut.lines(), whole) << text;
  }
}

}  // namespace
}  // namespace hvdrun
