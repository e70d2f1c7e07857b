// Compares the documents and completions with the tables of options.
#include "cli/batch_options.hpp"
#include "cli/option_table.hpp"
#include "completion_text.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>

#include <gmock/gmock.h>

namespace hvdrun::cli {
namespace {

using testing::HasSubstr;

std::string document(const std::string& name) {
  std::ifstream file(std::string(HVD_SOURCE_DIR "/") + name);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns whether the text has `word` between blanks, quotes or commas.
bool has_word(const std::string& text, const std::string& word) {
  constexpr std::string_view kBoundary = " \t\n',|()";
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const auto end = at + word.size();
    const bool starts = at == 0 || kBoundary.find(text[at - 1]) != std::string_view::npos;
    const bool ends = end == text.size() || kBoundary.find(text[end]) != std::string_view::npos;
    if (starts && ends) return true;
  }
  return false;
}

// Expects an item (.It) for every spelling. In mdoc, "--num-proc" is "Fl -num-proc".
void expect_items(const std::string& text, std::span<const Option> options) {
  std::string items;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(".It ", 0) == 0) items += line + "\n";
  for (const auto& option : options)
    for (const auto spelling : option.spellings)
      EXPECT_TRUE(spelling.empty() || has_word(items, "Fl " + std::string(spelling.substr(1))))
          << spelling;
}

TEST(Documents, ManualPageHasEveryOption) {
  const auto text = document("docs/reference/hvdrun.1");
  const auto batch = text.find("\n.Ss hvdrun sbatch\n");
  ASSERT_NE(batch, std::string::npos);
  const auto salloc = text.find("\n.Ss hvdrun salloc\n", batch);
  ASSERT_NE(salloc, std::string::npos);
  expect_items(text.substr(0, batch), option_table());
  expect_items(text.substr(batch, salloc - batch), batch_option_table());
}

// Returns the list of that name in the completion for bash.
std::string completion_list(const std::string& variable) {
  const auto text = document("completions/hvdrun.bash");
  const auto start = text.find("\n" + variable + "='");
  EXPECT_NE(start, std::string::npos) << variable;
  if (start == std::string::npos) return {};
  return text.substr(start, text.find("'\n", start) - start) + " ";
}

void expect_options_in(std::span<const Option> options, const std::string& flags,
                       const std::string& with_value) {
  for (const auto& option : options) {
    for (const auto spelling : option.spellings) {
      const auto& list = takes_value(option) ? with_value : flags;
      EXPECT_TRUE(spelling.empty() || has_word(list, std::string(spelling))) << spelling;
    }
  }
}

TEST(Documents, BashCompletionHasEveryOptionInTheRightList) {
  expect_options_in(option_table(), completion_list("_hvdrun_flags"),
                    completion_list("_hvdrun_options_with_value"));
  expect_options_in(batch_option_table(), completion_list("_hvdrun_batch_flags"),
                    completion_list("_hvdrun_batch_options_with_value"));
}

// Expects the file to hold the text. With HVD_WRITE_COMPLETIONS=1 it writes the file first.
void expect_file(const std::string& name, const std::string& text) {
  const char* writes = std::getenv("HVD_WRITE_COMPLETIONS");
  if (writes != nullptr && *writes == '1')
    std::ofstream(std::string(HVD_SOURCE_DIR "/") + name) << text;
  EXPECT_TRUE(document(name) == text) << name << ": HVD_WRITE_COMPLETIONS=1 cli_test writes it";
}

TEST(Documents, ZshAndFishCompletionsMatchTheTables) {
  expect_file("completions/_hvdrun", zsh_completion());
  expect_file("completions/hvdrun.fish", fish_completion());
}

TEST(Documents, ConfigPageHasEveryKey) {
  const auto text = document("docs/reference/config.md");
  const auto second = text.find("\n## Keys of sbatch and salloc\n");
  ASSERT_NE(second, std::string::npos);
  const auto expect_rows = [](const std::string& part, std::span<const Option> options) {
    for (const auto& option : options) {
      const bool has_row = part.find("\n| `" + std::string(option.name) + "` |") != part.npos;
      EXPECT_EQ(has_row, is_setting(option)) << option.name;
    }
  };
  expect_rows(text.substr(0, second), option_table());
  expect_rows(text.substr(second), batch_option_table());
}

TEST(Documents, ExitCodePageHasEveryCode) {
  const auto text = document("docs/reference/exit-codes.md");
  for (const int code : {kExitOk, kExitUsage, kExitTimeout, kExitLauncher, kExitNotExecutable,
                         kExitNotFound, kExitInterrupt})
    EXPECT_THAT(text, HasSubstr("\n| " + std::to_string(code) + " |"));
}

}  // namespace
}  // namespace hvdrun::cli
