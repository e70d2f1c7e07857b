#include "slurm/counts.hpp"

#include "base/host_list.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;

TEST(ExpandCounts, ReadsOneNumberPerHost) {
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

TEST(ExpandCounts, RefusesInvalidLists) {
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

TEST(CountGpus, AddsTheNumbersOfEachGpuType) {
  const std::pair<const char*, int> cases[] = {
      {"4", 4}, {"0", 0}, {"a100:4", 4}, {"gpu:a100:4", 4}, {"a100:2,v100:1", 3}};
  for (const auto& [text, count] : cases) EXPECT_EQ(count_gpus(text).value(), count) << text;
  for (const auto* text : {"", "a100", "a100:", ":", "4,", "-1", "1.5", "2147483647,1"})
    EXPECT_THAT(count_gpus(text).error().message, HasSubstr("is no number of GPUs such as"))
        << text;
}

using Hosts = std::vector<std::string>;
using Counts = std::vector<int>;

TEST(CountGpusByHost, ReadsTheOutputOfScontrol) {
  const char* uneven =
      "JobId=5 JobName=Nodes=n1 GRES=gpu:9\n"
      "   TRES=cpu=2,mem=32000M,node=2,billing=2\n"
      "   JOB_GRES=gpu:6\n"
      "     Nodes=n1 CPU_IDs=0 Mem=16000 GRES=gpu:4(IDX:0-3)\n"
      "     Nodes=n[2-3] CPU_IDs=0-1,8 Mem=16000 GRES=gpu:a100:2(IDX:0,2),gpu:v100:1(IDX:4)\n"
      "     Nodes=n4 CPU_IDs=0 Mem=16000 GRES=(null)\n"
      "     Nodes=n5 CPU_IDs=0 Mem=16000 GRES=shard:8(0/8),gpu:1(IDX:0)\n"
      "   MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0\n";
  EXPECT_EQ(count_gpus_by_host(uneven, Hosts{"n1", "n2", "n3", "n4", "n5"}).value(),
            (Counts{4, 3, 3, 0, 1}));
  EXPECT_EQ(count_gpus_by_host(uneven, Hosts{"n5", "n2"}).value(), (Counts{1, 3}))
      << "a step with only some of the hosts";
}

TEST(CountGpusByHost, NamesHostsWithoutALineAndUnreadableLines) {
  EXPECT_EQ(count_gpus_by_host("     Nodes=n1 CPU_IDs=0 GRES=gpu:1(IDX:0)\n", Hosts{"n1", "n2"})
                .error()
                .message,
            "there is no line about n2");
  for (const char* gres : {"", " GRES_IDX=gpu(IDX:0-3)", " GRES=gpu:many"})
    EXPECT_THAT(
        count_gpus_by_host(std::string("  Nodes=n1 Mem=0") + gres, Hosts{"n1"}).error().message,
        HasSubstr("cannot read a number of GPUs from"))
        << gres;
}

}  // namespace
}  // namespace hvdrun
