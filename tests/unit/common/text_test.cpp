#include "common/text.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace common {
namespace {

TEST(DescribeRanks, FoldsRuns) {
  EXPECT_EQ(describe_ranks(std::vector<int>{4}), "rank 4");
  EXPECT_EQ(describe_ranks(std::vector<int>{0, 1, 2}), "ranks 0-2");
  EXPECT_EQ(describe_ranks(std::vector<int>{0, 2, 3, 7}), "ranks 0,2-3,7");
}

TEST(FoldRanks, AcceptsAnyOrder) {
  EXPECT_EQ(fold_ranks(std::vector<int>{2, 0, 1, 5, 0}), "0-2,5");
  EXPECT_EQ(fold_ranks({}), "");
}

TEST(CopyText, TruncatesTextThatDoesNotFit) {
  char field[4];
  copy_text(field, "abcdef");
  EXPECT_EQ(field_text(field), "abc");
}

TEST(WithoutMiddle, DoesNotChangeShortText) {
  EXPECT_EQ(without_middle("a\nb\n", 200), "a\nb\n");
  const std::string full(200, 'x');
  EXPECT_EQ(without_middle(full, 200), full);
}

TEST(WithoutMiddle, RemovesWholeLinesAndNotesHowMuch) {
  std::string text;
  for (int i = 100; i < 200; ++i) text += "line " + std::to_string(i) + "\n";
  const std::string shortened = without_middle(text, 300);
  EXPECT_LE(shortened.size(), 300u);
  EXPECT_EQ(shortened.substr(0, 95),
            "line 100\nline 101\nline 102\nline 103\nline 104\nline 105\n"
            "  [... 76 lines, 684 bytes left out ...]\n");
  EXPECT_TRUE(shortened.ends_with("line 198\nline 199\n"));
}

TEST(WithoutMiddle, SplitsALongLineBetweenCharacters) {
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

const std::vector<std::string_view> kNames = {"-np", "--num-proc", "--hosts", "--verbose",
                                              "--output-filename"};

TEST(NearestName, FindsMistypedNames) {
  EXPECT_EQ(nearest_name("--num-procs", kNames), "--num-proc");
  EXPECT_EQ(nearest_name("--nmu-proc", kNames), "--num-proc");
  EXPECT_EQ(nearest_name("--host", kNames), "--hosts");
  EXPECT_EQ(nearest_name("-n", kNames), "-np");
}

TEST(NearestName, MatchesAPrefix) {
  EXPECT_EQ(nearest_name("--output", kNames), "--output-filename");
}

TEST(NearestName, IsEmptyForDissimilarNames) {
  EXPECT_EQ(nearest_name("--quux", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'n'), kNames), "");
}

TEST(Quote, KeepsATextOnOneLine) {
  EXPECT_EQ(quote("a b"), "\"a b\"");
  EXPECT_EQ(quote("a\nb\tc\rd\x1b[0m\x7f"), "\"a\\nb\\tc\\rd\\x1b[0m\\x7f\"");
  EXPECT_EQ(quote(std::string("a\0b", 3)), "\"a\\x00b\"");
  EXPECT_EQ(quote(""), "\"\"");
}

TEST(Quote, TruncatesALongTextBetweenCharacters) {
  EXPECT_EQ(quote(std::string(1024, 'a')), "\"" + std::string(1024, 'a') + "\"");
  EXPECT_EQ(quote(std::string(1025, 'a')), "\"" + std::string(1024, 'a') + "…\"");
  EXPECT_EQ(quote(std::string(1023, 'a') + "éé"), "\"" + std::string(1023, 'a') + "…\"");
}

TEST(QuoteIfNeeded, DoesNotQuoteWords) {
  EXPECT_EQ(quote_if_needed("./train.py"), "./train.py");
  EXPECT_EQ(quote_if_needed(""), "\"\"");
  EXPECT_EQ(quote_if_needed("a b"), "\"a b\"");
}

TEST(TableLines, AlignByCharactersNotBytes) {
  EXPECT_EQ(table_lines({{"TEMP", "POWER"}, {"71 \u00b0C", "612 W"}, {"-", "\xff"}}),
            (std::vector<std::string>{"TEMP   POWER", "71 \u00b0C  612 W", "-      \xff"}));
  EXPECT_TRUE(table_lines({}).empty());
}

TEST(Printable, EscapesTerminalControls) {
  EXPECT_EQ(printable("a\tb\nc \x1b[2J\r\b\x7f"), "a\tb\nc \\x1b[2J\\x0d\\x08\\x7f");
  EXPECT_EQ(printable("\xc2\x9b[2J \x9b[2J"), "\\x9b[2J \\x9b[2J") << "CSI as one character";
}

TEST(Printable, DoesNotChangeTextOfAnyEncoding) {
  // Some bytes within UTF-8 characters would be control characters alone.
  for (const char* text : {"größe 漢字 🎉 \xe2\x80\x9c", "\xc2\xa0", "caf\xe9 \xff", ""})
    EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable("cut \xe6\xbc"), "cut \xe6\xbc");
}

std::string parts_of(std::string_view pattern) {
  const auto parts = parse_pattern(pattern);
  if (!parts) return parts.error() == PatternError::unclosed_brace ? "unclosed" : "unopened";
  std::string text;
  for (const PatternPart& part : *parts)
    text += part.is_name ? "<" + part.text + ">" : part.text + "|";
  return text;
}

TEST(Text, PatternIsTextAndNamesInBraces) {
  EXPECT_EQ(parts_of(""), "");
  EXPECT_EQ(parts_of("plain"), "plain|");
  EXPECT_EQ(parts_of("run-{rank}.log"), "run-|<rank>.log|");
  EXPECT_EQ(parts_of("{host}{rank}"), "<host><rank>");
  EXPECT_EQ(parts_of("{{{rank}}}"), "{|<rank>}|");
  EXPECT_EQ(parts_of("{}"), "<>");
  EXPECT_EQ(parts_of("a{rank"), "unclosed");
  EXPECT_EQ(parts_of("{"), "unclosed");
  EXPECT_EQ(parts_of("rank}"), "unopened");
}

}  // namespace
}  // namespace common
