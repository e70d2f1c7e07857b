#include "cli/help.hpp"

#include "cli/option_table.hpp"

#include <sstream>

#include <gmock/gmock.h>

namespace hvdrun::cli {
namespace {

using testing::HasSubstr;

TEST(Help, ShowsEveryOptionAndItsDefault) {
  const auto text = help_text();
  for (const auto& option : option_table())
    for (const auto spelling : option.spellings) EXPECT_THAT(text, HasSubstr(spelling));
  EXPECT_THAT(text, HasSubstr("  -np, --num-proc, --np N   number of ranks"));
  EXPECT_THAT(text, HasSubstr("(default: TERM)"));
}

TEST(Help, IsAtMost80ColumnsWide) {
  std::istringstream lines(help_text());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80u) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
  }
}

TEST(Version, IsTheProjects) {
  EXPECT_EQ(version_text(), "hvdrun " HVD_TEST_VERSION "\n");
}

}  // namespace
}  // namespace hvdrun::cli
