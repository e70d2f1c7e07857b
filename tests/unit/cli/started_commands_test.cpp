#include "cli/started_commands.hpp"

#include <gtest/gtest.h>

namespace hvdrun::cli {
namespace {

TEST(StartedCommands, KnowAShellThatHasNeitherATextNorAScript) {
  using Command = std::vector<std::string>;
  for (const auto& words :
       {Command{"bash"}, Command{"/bin/sh", "-i"}, Command{"zsh", "--login"},
        Command{"bash", "-o", "vi"}, Command{"bash", "--rcfile", "file"}, Command{"bash", "+x"}})
    EXPECT_TRUE(is_shell_alone(words)) << words.back();
  for (const auto& words : {Command{}, Command{"bash", "run.sh"}, Command{"sh", "-c", "a"},
                            Command{"bash", "-euo", "vi", "a"}, Command{"busybox", "ls"},
                            Command{"python3"}, Command{"env", "bash"}})
    EXPECT_FALSE(is_shell_alone(words)) << (words.empty() ? "" : words.back());
}

}  // namespace
}  // namespace hvdrun::cli
