#include "base/text.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(Quote, KeepsATextOnOneLine) {
  EXPECT_EQ(quote("a b"), "\"a b\"");
  EXPECT_EQ(quote("a\nb\tc\rd\x1b[0m\x7f"), "\"a\\nb\\tc\\rd\\x1b[0m\\x7f\"");
  EXPECT_EQ(quote(std::string("a\0b", 3)), "\"a\\x00b\"");
  EXPECT_EQ(quote(""), "\"\"");
}

TEST(Quote, CutsALongTextBetweenCharacters) {
  EXPECT_EQ(quote(std::string(1024, 'a')), "\"" + std::string(1024, 'a') + "\"");
  EXPECT_EQ(quote(std::string(1025, 'a')), "\"" + std::string(1024, 'a') + "…\"");
  EXPECT_EQ(quote(std::string(1023, 'a') + "éé"), "\"" + std::string(1023, 'a') + "…\"");
}

TEST(QuoteIfNeeded, LeavesWordsAlone) {
  EXPECT_EQ(quote_if_needed("./train.py"), "./train.py");
  EXPECT_EQ(quote_if_needed(""), "\"\"");
  EXPECT_EQ(quote_if_needed("a b"), "\"a b\"");
}

TEST(Printable, HasNothingThatATerminalObeys) {
  EXPECT_EQ(printable("a\tb\nc \x1b[2J\r\b\x7f"), "a\tb\nc \\x1b[2J\\x0d\\x08\\x7f");
  EXPECT_EQ(printable("\xc2\x9b[2J \x9b[2J"), "\\x9b[2J \\x9b[2J") << "CSI as one character";
}

TEST(Printable, LeavesTextOfAnyEncodingAsItIs) {
  // UTF-8 has bytes in it that would be control characters by themselves.
  for (const char* text : {"größe 漢字 🎉 \xe2\x80\x9c", "\xc2\xa0", "caf\xe9 \xff", ""})
    EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable("cut \xe6\xbc"), "cut \xe6\xbc");
}

}  // namespace
}  // namespace hvdrun
