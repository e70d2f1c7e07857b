#include "base/environment.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using Block = std::vector<std::string>;

TEST(Environment, UsesTheFirstValueOfARepeatedName) {
  const char* block[] = {"A=1", "nothing", "A=2", "B=x=y", "C=", nullptr};
  EXPECT_EQ(environment_from(block), (Environment{{"A", "1"}, {"B", "x=y"}, {"C", ""}}));
  EXPECT_TRUE(environment_from(nullptr).empty());
}

TEST(Environment, ChangesReplaceVariablesOfTheSameName) {
  EXPECT_EQ(merge_environment({"A=1", "AB=2", "A=3"}, {"A=4", "D=5"}),
            (Block{"AB=2", "A=4", "D=5"}));
  EXPECT_EQ(merge_environment({}, {"A="}), (Block{"A="}));
  EXPECT_EQ(merge_environment({"A=1"}, {}), (Block{"A=1"}));
}

}  // namespace
}  // namespace hvdrun
