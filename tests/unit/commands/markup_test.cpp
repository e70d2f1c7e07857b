#include "commands/markup.hpp"

#include <gtest/gtest.h>

namespace hvdrun::scale {
namespace {

TEST(EscapeMarkup, MakesEverythingFitForXml) {
  EXPECT_EQ(escape_markup("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
  EXPECT_EQ(escape_markup("é €  😀"), "é €  😀");
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(escape_markup("\x1b[1m\tx\n"), bad + "[1m\tx\n");
  EXPECT_EQ(escape_markup("\xff"), bad);
  EXPECT_EQ(escape_markup("\xc3"), bad) << "cut short";
  EXPECT_EQ(escape_markup("\xc0\xaf"), bad + bad) << "longer than need be";
  EXPECT_EQ(escape_markup("\xed\xa0\x80"), bad + bad + bad) << "half of a pair";
  EXPECT_EQ(escape_markup("\xef\xbf\xbf"), bad + bad + bad) << "no character";
  EXPECT_EQ(escape_markup(std::string("\0", 1)), bad);
}

}  // namespace
}  // namespace hvdrun::scale
