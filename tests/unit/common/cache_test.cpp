#include "common/cache.hpp"

#include <filesystem>

#include <gtest/gtest.h>

namespace common {
namespace {

TEST(LargestCache, IsReadFromTheSystem) {
  const Cache cache = largest_cache();
  EXPECT_GE(cache.processors, 1);
  EXPECT_EQ(cache.bytes % 1024, 0u);
  const bool says = std::filesystem::exists("/sys/devices/system/cpu/cpu0/cache/index0/size");
  EXPECT_EQ(cache.bytes >= 16 * 1024, says) << cache.bytes;
}

}  // namespace
}  // namespace common
