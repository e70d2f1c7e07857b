#include "commands/markup.hpp"

#include <gtest/gtest.h>

namespace hvdrun::scale {
namespace {

TEST(EscapeMarkup, EscapesAnyBytesForXml) {
  EXPECT_EQ(escape_markup("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
  EXPECT_EQ(escape_markup("é €  😀"), "é €  😀");
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(escape_markup("\x1b[1m\tx\n"), bad + "[1m\tx\n");
  EXPECT_EQ(escape_markup("\xff"), bad);
  EXPECT_EQ(escape_markup("\xc3"), bad) << "an incomplete character";
  EXPECT_EQ(escape_markup("\xc0\xaf"), bad + bad) << "an overlong encoding";
  EXPECT_EQ(escape_markup("\xed\xa0\x80"), bad + bad + bad) << "half of a surrogate pair";
  EXPECT_EQ(escape_markup("\xef\xbf\xbf"), bad + bad + bad) << "a noncharacter";
  EXPECT_EQ(escape_markup(std::string("\0", 1)), bad);
}

}  // namespace
}  // namespace hvdrun::scale
