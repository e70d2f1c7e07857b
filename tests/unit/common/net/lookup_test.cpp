#include "common/net/lookup.hpp"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

namespace common {
namespace {

constexpr std::chrono::seconds kLong{60};

TEST(Lookup, FindsTheAddressesOfEachNameInTurn) {
  // The second one is longer than any name may be, so that no server is asked.
  Lookup lookup({"127.0.0.1", std::string(300, 'x'), "::1", "localhost"});
  ASSERT_EQ(lookup.next(kLong).size(), 1u);
  EXPECT_TRUE(lookup.next(kLong).empty());
  const auto found = lookup.next(kLong);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].host(), "::1");
  const auto local = lookup.next(kLong);
  ASSERT_FALSE(local.empty());
  EXPECT_TRUE(local[0].is_loopback());
}

TEST(Lookup, EndsWhileItsAnswersAreNotTaken) {
  const Lookup lookup({"127.0.0.1", "127.0.0.2"});
}

TEST(Lookup, HasNoAnswerAfterOneThatDidNotComeInTime) {
  Lookup lookup({});
  EXPECT_TRUE(lookup.next(std::chrono::milliseconds(1)).empty());
  EXPECT_TRUE(lookup.next(kLong).empty());
}

}  // namespace
}  // namespace common
