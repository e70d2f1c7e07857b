// Tests how a page of the documents is printed.
#include "commands/page_text.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(PageText, FillsParagraphsAndListsAndKeepsCode) {
  EXPECT_EQ(
      page_text("# A *page*\n\nSee [errors](errors.md) and **all** of `a [b](c)`,\nplease.\n\n"
                "- one two three\n  four\n- five\n12. six\n\n```console\n$ a  b\n\nc\n```\n",
                16),
      "A *page*\n========\n\nSee errors and\nall of `a\n[b](c)`, please.\n\n"
      "- one two three\n  four\n- five\n12. six\n\n    $ a  b\n\n    c\n");
}

TEST(PageText, ANarrowTableIsAlignedAndAWideOneIsBlocks) {
  const std::string table = "| message | cause |\n|---|---|\n| `a \\| b` | old |\n| [c](d) | |\n";
  EXPECT_EQ(page_text(table, 40), "message  cause\n`a | b`  old\nc\n");
  EXPECT_EQ(page_text(table, 12), "`a | b`\n    cause:\n    old\n\nc\n");
}

TEST(PageText, NothingIsLongerThanTheWidthButCode) {
  EXPECT_EQ(page_text("äöü äöü äöü\n", 7), "äöü äöü\näöü\n");
  EXPECT_EQ(page_text("", 7), "");
  EXPECT_EQ(page_text("| |\n", 7), "");
}

TEST(PageText, ATitleIsTheFirstHeading) {
  EXPECT_EQ(page_title("# What a `message` means\n\ntext\n"), "What a `message` means");
  EXPECT_EQ(page_title("text\n"), "");
}

}  // namespace
}  // namespace hvdrun
