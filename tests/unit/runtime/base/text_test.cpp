#include "base/text.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

TEST(DescribeRanks, FoldsRuns) {
  EXPECT_EQ(describe_ranks(std::vector<int>{4}), "rank 4");
  EXPECT_EQ(describe_ranks(std::vector<int>{0, 1, 2}), "ranks 0-2");
  EXPECT_EQ(describe_ranks(std::vector<int>{0, 2, 3, 7}), "ranks 0,2-3,7");
}

TEST(CopyText, CutsWhatDoesNotFit) {
  char field[4];
  copy_text(field, "abcdef");
  EXPECT_EQ(field_text(field), "abc");
}

TEST(WithoutMiddle, LeavesShortTextAlone) {
  EXPECT_EQ(without_middle("a\nb\n", 200), "a\nb\n");
  const std::string full(200, 'x');
  EXPECT_EQ(without_middle(full, 200), full);
}

TEST(WithoutMiddle, CutsBetweenLinesAndSaysHowMuch) {
  std::string text;
  for (int i = 100; i < 200; ++i) text += "line " + std::to_string(i) + "\n";
  const std::string shortened = without_middle(text, 300);
  EXPECT_LE(shortened.size(), 300u);
  EXPECT_EQ(shortened.substr(0, 95),
            "line 100\nline 101\nline 102\nline 103\nline 104\nline 105\n"
            "  [... 76 lines, 684 bytes left out ...]\n");
  EXPECT_TRUE(shortened.ends_with("line 198\nline 199\n"));
}

TEST(WithoutMiddle, CutsALongLineBetweenCharacters) {
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'x');
    for (int i = 0; i < 400; ++i) text += "\xe2\x82\xac";  // a euro sign
    const std::string shortened = without_middle(text, 301);
    EXPECT_LE(shortened.size(), 301u);
    const std::size_t note = shortened.find("\n  [... ");
    ASSERT_NE(note, std::string::npos);
    EXPECT_EQ((note - shift) % 3, 0u);
    const std::size_t rest = shortened.find(" bytes left out ...]\n") + 21;
    EXPECT_EQ((shortened.size() - rest) % 3, 0u);
    EXPECT_EQ(shortened[rest], '\xe2');
  }
}

}  // namespace
}  // namespace libhvd
