#include "resources/interface_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using Names = std::vector<std::string>;

const Names kHost{"lo", "eth0", "eth01", "docker0", "ib0"};

Names choose(std::string_view choice) {
  auto chosen = choose_interfaces(choice, kHost);
  return chosen ? *chosen : Names{chosen.error().message};
}

TEST(InterfaceChoice, AcceptsNamesAndPrefixes) {
  EXPECT_EQ(choose("ib0,eth0"), (Names{"ib0", "eth0"}));
  EXPECT_EQ(choose("eth"), (Names{"eth0", "eth01"}));
  EXPECT_EQ(choose("lo"), Names{"lo"});
}

TEST(InterfaceChoice, AcceptsOnlyWholeNamesAfterAnEqualsSign) {
  EXPECT_EQ(choose("=eth0,ib0"), (Names{"eth0", "ib0"}));
  EXPECT_FALSE(choose_interfaces("=eth", kHost));
}

TEST(InterfaceChoice, ExcludesNamesAfterACaret) {
  EXPECT_EQ(choose("^docker,lo"), (Names{"eth0", "eth01", "ib0"}));
  EXPECT_EQ(choose("^docker"), (Names{"eth0", "eth01", "ib0"}))
      << "without loopback, since there are others";
  EXPECT_EQ(choose("^eth,docker,ib"), Names{"lo"});
  EXPECT_EQ(choose("^=eth0"), (Names{"eth01", "docker0", "ib0"}));
}

TEST(InterfaceChoice, ErrorListsTheExistingInterfaces) {
  const auto chosen = choose_interfaces("ib7", kHost);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().message,
            "no network interface ib7 (--network-interface); it has lo, eth0, eth01, docker0, ib0");
  EXPECT_EQ(chosen.error().exit_code, kExitUsage);
  EXPECT_FALSE(choose_interfaces("^lo,eth,docker,ib", kHost));
  EXPECT_FALSE(choose_interfaces("eth0,", kHost));
  EXPECT_FALSE(choose_interfaces("", kHost));
}

}  // namespace
}  // namespace hvdrun
