#include "base/result.hpp"

#include "base/system.hpp"

#include <cerrno>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail("odd", kExitUsage);
  return value / 2;
}

Result<int> quarter(int value) {
  HVD_TRY(const int once, half(value));
  HVD_CHECK(half(once));
  return once / 2;
}

TEST(Result, MacrosReturnErrors) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(3).error().message, "odd");
  EXPECT_EQ(quarter(6).error().exit_code, kExitUsage);
}

TEST(Result, FailErrnoNamesTheReason) {
  const Result<int> result = fail_errno("cannot open x", ENOENT);
  EXPECT_EQ(result.error().message, "cannot open x: No such file or directory");
  EXPECT_EQ(with_context("file.json", result.error()).message,
            "file.json: cannot open x: No such file or directory");
}

TEST(RandomHex, HasTheLengthAndDiffersEachTime) {
  const auto one = random_hex(16);
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, random_hex(16));
}

}  // namespace
}  // namespace hvdrun
