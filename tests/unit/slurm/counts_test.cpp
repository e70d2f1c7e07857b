#include "slurm/counts.hpp"

#include "slurm/host_list.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;

TEST(ExpandCounts, ReadsOneNumberAHost) {
  const std::pair<const char*, std::vector<int>> cases[] = {
      {"4", {4}},       {"4(x2),3", {4, 4, 3}},       {"9,1(x2)", {9, 1, 1}},
      {"16(x1)", {16}}, {"2147483647", {2147483647}},
  };
  for (const auto& [text, counts] : cases) {
    const auto read = expand_counts(text);
    ASSERT_TRUE(read) << text << ": " << read.error().message;
    EXPECT_EQ(*read, counts) << text;
  }
  EXPECT_EQ(expand_counts("1(x65536)")->size(), kMaxHosts);
}

TEST(ExpandCounts, RefusesWhatIsNone) {
  for (const auto* text : {"", ",", "4,", "0", "-1", "4(x0)", "4(x-1)", "4(x", "4(x2", "4(x2),",
                           "4x2", "4()", "(x2)", "4(x2)3", "4 (x2)", "2147483648", "many"}) {
    const auto read = expand_counts(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().exit_code, kExitUsage);
    EXPECT_THAT(read.error().message, HasSubstr("is no list of counts such as 4(x2),3")) << text;
  }
  for (const auto* text : {"1(x65537)", "1(x2147483647)", "1(x65536),1"})
    EXPECT_THAT(expand_counts(text).error().message, HasSubstr("counts for more than 65536 hosts"))
        << text;
}

TEST(CountGpus, ReadsKindsAndNumbers) {
  const std::pair<const char*, int> cases[] = {
      {"4", 4}, {"0", 0}, {"a100:4", 4}, {"gpu:a100:4", 4}, {"a100:2,v100:1", 3}};
  for (const auto& [text, count] : cases) EXPECT_EQ(count_gpus(text).value(), count) << text;
  for (const auto* text : {"", "a100", "a100:", ":", "4,", "-1", "1.5", "2147483647,1"})
    EXPECT_THAT(count_gpus(text).error().message, HasSubstr("is no number of GPUs such as"))
        << text;
}

}  // namespace
}  // namespace hvdrun
