// What bash offers: the completion, run by a real bash.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>

namespace hvdrun::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

// The answers to TAB at the end of the last of `words` (as bash sees them, '' for none).
std::set<std::string> completions_of(const std::string& words) {
  const std::string script =
      "source '" HVD_SOURCE_DIR "/completions/hvdrun.bash'; COMP_WORDS=(hvdrun " + words +
      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _hvdrun; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const std::string command = "exec bash --norc -c \"$HVD_TEST_SCRIPT\"";
  ::setenv("HVD_TEST_SCRIPT", script.c_str(), 1);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 4096> buffer;
  while (const auto count = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    text.append(buffer.data(), count);
  std::set<std::string> answers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) answers.insert(line);
  return answers;
}

TEST(Completion, OffersOptions) {
  EXPECT_THAT(completions_of("--num"), ElementsAre("--num-proc"));
  EXPECT_THAT(completions_of("-np 2 --gpu"), ElementsAre("--gpu-bind"));
  EXPECT_THAT(completions_of("run --dry"), ElementsAre("--dry-run"));
}

TEST(Completion, OffersValues) {
  EXPECT_THAT(completions_of("--bind-to ''"), ElementsAre("auto", "core", "none", "numa"));
  EXPECT_THAT(completions_of("--bind-to = n"), ElementsAre("none", "numa"));
  EXPECT_THAT(completions_of("--pmix ="), ElementsAre("auto", "off", "on"));
  EXPECT_THAT(completions_of("-np ''"), IsEmpty());
}

TEST(Completion, OffersProgramsAfterTheOptions) {
  EXPECT_THAT(completions_of("-np 2 prin"), Contains("printf"));
  EXPECT_THAT(completions_of("-np 2 -- prin"), Contains("printf"));
}

TEST(Completion, LeavesTheProgramsWordsToTheProgram) {
  EXPECT_THAT(completions_of("-np 2 prog --num"), Not(Contains("--num-proc")));
}

}  // namespace
}  // namespace hvdrun::cli
