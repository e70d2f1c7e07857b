#include "slurm/quoting.hpp"

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

const std::string kAwkward[] = {
    "",    " ",  "a b", "it's", "\"",       "$(touch x)", "`id`",     "a;b",          "-n",
    "--",  "\\", "\\n", "a\nb", "\n",       "tab\there",  "\x1b[31m", "\x01\x02\x03", "*",
    "~",   "#c", "a=b", "!!",   "größe 漢", "$'x'",       "\r",       "'\\''",        "\x7f",
    "\n7", "&&", "a\\", "{{x}}"};

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 256> buffer;
  std::size_t count = 0;
  while ((count = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0)
    text.append(buffer.data(), count);
  return text;
}

TEST(QuoteForShell, BashReadsTheValueBack) {
  for (const auto& value : kAwkward) {
    const auto quoted = quote_for_shell(value);
    // bash reads the command from stdin, since popen's sh has different escapes.
    EXPECT_EQ(output_of("bash <<'HVD_END'\nprintf '%s' " + quoted + "\nHVD_END"), value) << quoted;
    EXPECT_EQ(quoted.find('\n'), std::string::npos) << quoted;
  }
}

TEST(QuoteForShell, LeavesPlainWordsAsTheyAre) {
  for (const std::string word : {"train.py", "--lr=0.1", "a/b:c,d@e%f+g_h-1", "-n"})
    EXPECT_EQ(quote_for_shell(word), word);
  EXPECT_EQ(quote_for_shell("it's"), "'it'\\''s'");
  EXPECT_EQ(quote_for_shell("a\nb'c"), "$'a\\nb\\'c'");
}

TEST(QuoteForShell, KeepsTheVariablesOfAScript) {
  EXPECT_EQ(common::quote_with_variables("a b"), "'a b'");
  EXPECT_EQ(common::quote_with_variables("$A/x \"y\""), "\"$A/x \\\"y\\\"\"");
  EXPECT_EQ(output_of("A=1 bash <<'HVD_END'\nprintf '%s|' " +
                      common::quote_with_variables("$A \\ ` it's \"b\"") + "\nHVD_END"),
            "1 \\ ` it's \"b\"|");
}

TEST(QuoteForShell, BashPutsTheIndexOfAnArraysTaskIntoAWord) {
  const auto read = [](const std::string& value) {
    return output_of("SLURM_ARRAY_TASK_ID=7 bash <<'HVD_END'\nprintf '%s|' " +
                     quote_for_shell_with_index(value) + "\nHVD_END");
  };
  EXPECT_EQ(read("configs/{index}.yaml"), "configs/7.yaml|");
  EXPECT_EQ(read("$HOME/{index} {index}"), "$HOME/7 7|");
  for (const auto& value : kAwkward) EXPECT_EQ(read(value), value + "|");
  EXPECT_EQ(output_of("bash <<'HVD_END' 2>&1\necho " + quote_for_shell_with_index("{index}") +
                      "\necho not here\nHVD_END")
                .find("not here"),
            std::string::npos);
}

// Reads an argument as sbatch's get_argument does; render.hpp has the grammar. The test's oracle is
// written independently, as a state machine.
std::string read_argument(const std::string& line) {
  std::string argument;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char letter = line[i];
    if (letter == '\\' && i + 1 < line.size()) {
      argument += line[++i];
    } else if (quote != 0 && letter == quote) {
      quote = 0;
    } else if (quote == 0 && (letter == '"' || letter == '\'')) {
      quote = letter;
    } else if (quote == 0 && (letter == ' ' || letter == '\t' || letter == '#')) {
      return argument + "<cut>";
    } else {
      argument += letter;
    }
  }
  return quote == 0 ? argument : "<open quote>";
}

TEST(QuoteForDirective, SbatchReadsTheArgumentBack) {
  for (const auto& value : kAwkward) {
    if (!fits_directive(value)) continue;
    EXPECT_EQ(read_argument(quote_for_directive(value)), value);
    EXPECT_EQ(read_argument(quote_for_directive("--job-name=" + value)), "--job-name=" + value);
  }
}

TEST(QuoteForDirective, QuotesTheValueOnly) {
  EXPECT_EQ(quote_for_directive("--job-name=a b"), "--job-name=\"a b\"");
  EXPECT_EQ(quote_for_directive("--signal=B:USR1@120"), "--signal=B:USR1@120");
  EXPECT_EQ(quote_for_directive("--output=%x-%j.out"), "--output=%x-%j.out");
  EXPECT_EQ(quote_for_directive("--nodelist=n[1-4]"), "--nodelist=n[1-4]");
  EXPECT_EQ(quote_for_directive("--requeue"), "--requeue");
  EXPECT_EQ(quote_for_directive("--comment="), "--comment=");
}

TEST(QuoteForDirective, LineEndsDoNotFit) {
  EXPECT_FALSE(fits_directive("a\nexec evil"));
  EXPECT_FALSE(fits_directive("a\r"));
  EXPECT_TRUE(fits_directive("a b"));
}

TEST(QuoteForComment, ReplacesLineEnds) {
  EXPECT_EQ(quote_for_comment("a\nrm -rf b"), "a rm -rf b");
}

TEST(QuoteForShellExpanding, ExpandsVariablesAndNothingElse) {
  const std::pair<const char*, const char*> cases[] = {
      {"$CINECA_AI_ENV", "\"${CINECA_AI_ENV:?}\""},
      {"${WORK}/my env", "\"${WORK:?}\"'/my env'"},
      {"/a/$USER/$X1", "/a/\"${USER:?}\"/\"${X1:?}\""},
      {"it's", "'it'\\''s'"},
  };
  for (const auto& [value, quoted] : cases) {
    EXPECT_TRUE(is_expandable(value));
    EXPECT_EQ(quote_for_shell_expanding(value), quoted);
  }
  for (const char* value : {"$", "$(date)", "a$", "$1", "${", "${A", "${A:-b}", "$$", "$A$-"})
    EXPECT_FALSE(is_expandable(value)) << value;
  EXPECT_EQ(quote_for_shell_expanding("a$"), "a'$'");
}

}  // namespace
}  // namespace hvdrun
