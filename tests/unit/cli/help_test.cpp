#include "cli/help.hpp"

#include "cli/option_table.hpp"

#include <algorithm>
#include <sstream>
#include <string>

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

// Returns the width in columns: "…" is one column and three bytes.
std::size_t columns_of(const std::string& line) {
  const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; };
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), starts));
}

TEST(Help, IsAtMost80ColumnsWide) {
  for (const auto& text : {help_text(), short_help_text(), batch_help_text("sbatch")}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(columns_of(line), 80u) << line;
      EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
    }
  }
}

TEST(Help, ShortHelpFitsOneScreen) {
  const auto text = short_help_text();
  const auto lines = std::count(text.begin(), text.end(), '\n');
  EXPECT_GE(lines, 24);
  EXPECT_LE(lines, 30);
  for (const auto* option : {"-np N", "-H HOST", "--hostfile FILE", "-x NAME", "--dry-run",
                             "--horovod", "--max-restarts R", "--label", "--output-filename DIR",
                             "--report FILE", "--verbose", "--explain", "--help"})
    EXPECT_THAT(text, HasSubstr(option));
}

TEST(Help, OfSallocOmitsOptionsThatItRefuses) {
  const auto text = batch_help_text("salloc");
  for (const auto* option : {"--module", "--output", "--requeue", "--submit", "--follow", "--array",
                             "--conda", "--script-file"})
    EXPECT_THAT(text, testing::Not(HasSubstr(option))) << option;
  for (const auto* option : {"--nodes", "--time", "--partition", "--job-name"})
    EXPECT_THAT(text, HasSubstr(option));
  EXPECT_THAT(batch_help_text("sbatch"), HasSubstr("--requeue"));
}

TEST(Version, IsTheProjectsVersionWithTheBuild) {
  EXPECT_THAT(version_text(), testing::MatchesRegex(
                                  "hvdrun " HVD_TEST_VERSION
                                  "\nbuilt with [A-Za-z]+ [0-9.]+ for glibc 2\\.[0-9]+; libraries "
                                  "of the system: hwloc [0-9].*, libevent [0-9].*\n"));
}

}  // namespace
}  // namespace hvdrun::cli
