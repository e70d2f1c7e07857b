#include "commands/commands.hpp"

#include "cli/first_word.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(FindCommand, KnowsEverySubcommand) {
  for (const auto name : cli::command_names()) EXPECT_NE(find_command(name), nullptr) << name;
  for (const auto* name :
       {"sbatch", "salloc", "follow", "jobs", "cancel", "logs", "scale", "templates", "top"})
    EXPECT_NE(find_command(name), nullptr) << name;
  for (const auto* name : {"", "run", "sbatc", "sbatch ", "--jobs"})
    EXPECT_EQ(find_command(name), nullptr) << name;
}

}  // namespace
}  // namespace hvdrun
