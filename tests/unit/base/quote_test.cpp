#include "base/quote.hpp"

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

}  // namespace
}  // namespace hvdrun
