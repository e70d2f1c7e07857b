// Tests the completion for bash in a real bash.
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

// Returns the completions at the end of the last of `words`, which are in bash's syntax ('' for an
// empty word). hvdrun is a function that lists two templates.
std::set<std::string> completions_of(const std::string& words) {
  const std::string script =
      "hvdrun() { printf '%s\\n' 'TEMPLATE  FOR' 'generic   any cluster' 'requeue   training'; }; "
      "source '" HVD_SOURCE_DIR "/completions/hvdrun.bash'; COMP_WORDS=(hvdrun " +
      words +
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

TEST(Completion, CompletesOptions) {
  EXPECT_THAT(completions_of("--num"), ElementsAre("--num-proc"));
  EXPECT_THAT(completions_of("-np 2 --gpu"), ElementsAre("--gpu-bind"));
  EXPECT_THAT(completions_of("run --dry"), ElementsAre("--dry-run"));
}

TEST(Completion, CompletesValues) {
  EXPECT_THAT(completions_of("--bind-to ''"),
              ElementsAre("auto", "core", "none", "numa", "socket"));
  EXPECT_THAT(completions_of("--bind-to = n"), ElementsAre("none", "numa"));
  EXPECT_THAT(completions_of("--pmix ="), ElementsAre("auto", "off", "on"));
  EXPECT_THAT(completions_of("-np ''"), IsEmpty());
}

TEST(Completion, CompletesSubcommandsOnlyAsTheFirstWord) {
  EXPECT_THAT(completions_of("sbat"), Contains("sbatch"));
  EXPECT_THAT(completions_of("foll"), Contains("follow"));
  EXPECT_THAT(completions_of("-np 2 foll"), Not(Contains("follow")));
  EXPECT_THAT(completions_of("jobs --a"), ElementsAre("--all"));
  EXPECT_THAT(completions_of("follow --no"), ElementsAre("--no-output"));
}

TEST(Completion, CompletesBatchOptionsOnlyForSbatchAndSalloc) {
  EXPECT_THAT(completions_of("sbatch --gpus"), ElementsAre("--gpus-per-node"));
  EXPECT_THAT(completions_of("salloc -np 2 --part"), ElementsAre("--partition"));
  EXPECT_THAT(completions_of("sbatch --partition main --follo"), ElementsAre("--follow"));
  EXPECT_THAT(completions_of("sbatch --num"), ElementsAre("--num-proc"));
  EXPECT_THAT(completions_of("sbatch --partition main -- prin"), Contains("printf"));
  EXPECT_THAT(completions_of("--gpus"), IsEmpty());
  EXPECT_THAT(completions_of("scale --rep"),
              ElementsAre("--repeat", "--replace", "--report", "--report-bindings"));
}

TEST(Completion, CompletesTemplates) {
  EXPECT_THAT(completions_of("templates ''"), ElementsAre("--help", "--template-path", "show"));
  EXPECT_THAT(completions_of("templates show ''"), ElementsAre("generic", "requeue"));
  EXPECT_THAT(completions_of("sbatch --template = re"), ElementsAre("requeue"));
}

TEST(Completion, CompletesProgramsAfterTheOptions) {
  EXPECT_THAT(completions_of("-np 2 prin"), Contains("printf"));
  EXPECT_THAT(completions_of("-np 2 -- prin"), Contains("printf"));
}

TEST(Completion, DoesNotCompleteOptionsAfterTheProgram) {
  EXPECT_THAT(completions_of("-np 2 prog --num"), Not(Contains("--num-proc")));
}

}  // namespace
}  // namespace hvdrun::cli
