#include "cli/shell_text.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun::cli {
namespace {

using testing::ElementsAre;
using Words = std::vector<std::string>;

std::vector<Words> words_of(const std::string& text) {
  std::vector<Words> all;
  for (const auto& command : commands_of(text)) all.push_back(command.words);
  return all;
}

TEST(ShellText, DividesATextIntoItsCommandsAndTheirWords) {
  EXPECT_THAT(words_of("cd 'a b' && A=1 B=\"x y\" ./a \"$1\" \\\n  -x | tee log; date # srun\n"),
              ElementsAre(Words{"cd", "a b"}, Words{"./a", "$1", "-x"}, Words{"tee", "log"},
                          Words{"date"}));
  EXPECT_THAT(words_of("exec > log 2>&1\ntime ./a <in >>out 2>err &\n"), ElementsAre(Words{"./a"}));
  EXPECT_THAT(words_of("x=$(srun a; date)\n./a \"$(hostname -s)\" ${B:-c d} `date`"),
              ElementsAre(Words{"./a", "$(hostname -s)", "${B:-c d}", "`date`"}));
  EXPECT_THAT(words_of("cat <<END\nsrun ./a\nEND\n./b"), ElementsAre(Words{"cat"}, Words{"./b"}));
  EXPECT_THAT(words_of("# torchrun\n\n  \n"), ElementsAre());
}

TEST(ShellText, KnowsWhichCommandsMayNotRun) {
  const auto certain = [](const std::string& text) {
    std::vector<std::string> names;
    for (const auto& [words, is_certain] : commands_of(text))
      if (is_certain) names.push_back(words.front());
    return names;
  };
  EXPECT_THAT(certain("a\nif b; then c; else d; fi\ne"), ElementsAre("a", "e"));
  EXPECT_THAT(certain("a || b; c"), ElementsAre("a", "c"));
  EXPECT_THAT(certain("a && b"), ElementsAre("a", "b"));
  EXPECT_THAT(certain("f() {\n a\n}\nfunction g { b; }\nc"), ElementsAre("c"));
  EXPECT_THAT(certain("case $1 in\n a) b;;\n *) c;;\nesac\nd"), ElementsAre("d"));
  EXPECT_THAT(certain("for i in 1 2; do a; done"), ElementsAre("for", "a", "done"));
  EXPECT_THAT(certain("(a; { b; })"), ElementsAre("a", "b"));
  EXPECT_THAT(certain("exec a\nb"), ElementsAre("a"));
  EXPECT_THAT(certain("a; exit 3; b"), ElementsAre("a", "exit"));
  EXPECT_THAT(certain("[ -n \"$A\" ] && a; b"), ElementsAre("[", "b"));
  EXPECT_THAT(certain("[[ $A = 1 && $B = 2 ]] && a; b"), ElementsAre("[[", "b"));
  EXPECT_THAT(certain("((A == 1)) && a; b"), ElementsAre("b"));
  EXPECT_THAT(certain("! a && b; c"), ElementsAre("a", "c"));
  EXPECT_THAT(certain("command -v a >/dev/null && a"), ElementsAre("-v"));
  EXPECT_THAT(certain("a || { b; c; }; d"), ElementsAre("a", "d"));
  EXPECT_THAT(certain("a ||\n  (b; c) | d\ne"), ElementsAre("a", "e"));
  EXPECT_THAT(certain("a || b && c\nd"), ElementsAre("a", "d"));
  EXPECT_THAT(certain("A=(a b) c; declare -a A=(d e)"), ElementsAre("c", "declare"));
}

TEST(ShellText, ContinuesAfterAnUncertainExit) {
  const auto certain = [](const std::string& text) {
    std::vector<std::string> names;
    for (const auto& [words, is_certain] : commands_of(text))
      names.push_back(words.front() + (is_certain ? "" : "?"));
    return names;
  };
  EXPECT_THAT(certain("[ -z \"$1\" ] && exit 1\na"), ElementsAre("[", "exit?", "a"));
  EXPECT_THAT(certain("[ $# = 1 ] || { b; exit 1; }\na"), ElementsAre("[", "b?", "exit?", "a"));
  EXPECT_THAT(certain("[ $HVD_RANK = 0 ] || exit 0\na"), ElementsAre("[", "exit?", "a?"));
  EXPECT_THAT(certain("if a; then exec b; fi\nc"), ElementsAre("a?", "b?", "c?"));
  EXPECT_THAT(certain("f() { exit; }\n(exit)\na"), ElementsAre("exit?", "exit", "a"));
}

}  // namespace
}  // namespace hvdrun::cli
