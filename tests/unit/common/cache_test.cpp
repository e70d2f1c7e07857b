#include "common/cache.hpp"

#include <gtest/gtest.h>

namespace common {
namespace {

TEST(LargestCache, IsWhatTheSystemSays) {
  const Cache cache = largest_cache();
  EXPECT_GE(cache.processors, 1);
  if (cache.bytes == 0) GTEST_SKIP() << "this system does not say";
  EXPECT_GE(cache.bytes, 64u * 1024);
  EXPECT_EQ(cache.bytes % 1024, 0u);
}

}  // namespace
}  // namespace common
