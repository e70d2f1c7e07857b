#include "base/text.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

TEST(DescribeRanks, FoldsRuns) {
  EXPECT_EQ(describe_ranks(std::vector<int>{4}), "rank 4");
  EXPECT_EQ(describe_ranks(std::vector<int>{0, 1, 2}), "ranks 0-2");
  EXPECT_EQ(describe_ranks(std::vector<int>{0, 2, 3, 7}), "ranks 0,2-3,7");
}

TEST(CopyText, CutsWhatDoesNotFit) {
  char field[4];
  copy_text(field, "abcdef");
  EXPECT_EQ(field_text(field), "abc");
}

}  // namespace
}  // namespace libhvd
