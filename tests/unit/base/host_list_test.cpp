#include "base/host_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;

TEST(ExpandHostList, AgreesWithScontrol) {
  // As `scontrol show hostnames` of SLURM 22.05 prints them. The last two are lists that it refuses
  // and hvdrun accepts. host_list_scontrol_test.cpp compares thousands more.
  const std::pair<const char*, const char*> cases[] = {
      {"n1", "n1"},
      {"n[1-3]", "n1 n2 n3"},
      {"n[01-03,20]", "n01 n02 n03 n20"},
      {"n[01-3]", "n01 n02 n03"},
      {"n[1-010]", "n1 n2 n3 n4 n5 n6 n7 n8 n9 n10"},
      {"n[098-101]", "n098 n099 n100 n101"},
      {"n[98-101]", "n98 n99 n100 n101"},
      {"n[00-2]", "n00 n01 n02"},
      {"n[5,3,4]", "n5 n3 n4"},
      {"n[1,2,1],n1", "n1 n2 n1 n1"},
      {"n[1-2],m[08-11],x", "n1 n2 m08 m09 m10 m11 x"},
      {"[1-3]", "1 2 3"},
      {"n[1-2][3-4]", "n13 n14 n23 n24"},
      {"r[0-1]n[2-3]", "r0n2 r0n3 r1n2 r1n3"},
      {"a[1-2]b[1-2]c[1-2]", "a1b1c1 a1b1c2 a2b1c1 a2b1c2 a1b2c1 a1b2c2 a2b2c1 a2b2c2"},
      {"n[1-2]3[4-5]", "n134 n135 n234 n235"},
      {"n[1-2].cluster", "n1.cluster n2.cluster"},
      {"r[1-2]-ib,login", "r1-ib r2-ib login"},
  };
  for (const auto& [text, names] : cases) {
    const auto hosts = expand_host_list(text);
    ASSERT_TRUE(hosts) << text << ": " << hosts.error().message;
    EXPECT_EQ(fmt::format("{}", fmt::join(*hosts, " ")), names) << text;
  }
}

TEST(ExpandHostList, RefusesInvalidLists) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "there is a host without a name in the list"},
      {"n1,", "there is a host without a name in the list"},
      {"n[1-3", "\"n[1-3\" has a \"[\" without \"]\""},
      {"n1]", "\"n1]\" has a \"]\" without \"[\""},
      {"n[1-2]]", "has a \"]\" without"},
      {"n[[1-2]]", "\"[1\" in brackets where numbers such as 1-4,7 are wanted"},
      {"n[]", "\"n[]\" has \"\" in brackets where numbers"},
      {"n[1-]", "has \"\" in brackets"},
      {"n[-1]", "has \"\" in brackets"},
      {"n[1,,2]", "has \"\" in brackets"},
      {"n[1-2-3]", "has \"2-3\" in brackets"},
      {"n[a-b]", "has \"a\" in brackets"},
      {"n[+1]", "has \"+1\" in brackets"},
      {"n[3-1]", "\"n[3-1]\" runs backwards at \"3-1\""},
      {"n 1", "\"n 1\" has \" \", which no host's name has"},
      {"münchen1", "\"münchen1\" has \"ü\", which no host's name has"},
      {"n☃", "\"n☃\" has \"☃\", which no host's name has"},
      {"n\n1", "\"n\\n1\" has \"\\n\""},
      {"-n1", "\"-n1\" is no host's name: it begins with \"-\""},
      {"n[9999999999999999999]", "has a number that is too long"},
  };
  for (const auto& [text, message] : cases) {
    const auto hosts = expand_host_list(text);
    ASSERT_FALSE(hosts) << text;
    EXPECT_EQ(hosts.error().exit_code, kExitUsage);
    EXPECT_THAT(hosts.error().message, HasSubstr(message)) << text;
  }
}

TEST(ExpandHostList, RefusesALongListBeforeItTakesMemory) {
  EXPECT_EQ(expand_host_list("n[1-65536]")->size(), kMaxHosts);
  for (const auto* text : {"n[1-65537]", "n[1-1000000]", "n[0-999999999999999999]",
                           "n[1-1000][1-1000]", "n[1-256][1-256][1-2]", "n[1-65536],m",
                           "n[1-40000,1-40000]", "n[1-999999999999999999,1-999999999999999999]"}) {
    const auto hosts = expand_host_list(text);
    ASSERT_FALSE(hosts) << text;
    EXPECT_THAT(hosts.error().message, HasSubstr("names more than 65536 hosts")) << text;
  }
  const std::string wide = "n[" + std::string(300, '0') + "-65535]";
  EXPECT_FALSE(expand_host_list(wide));
  EXPECT_THAT(expand_host_list(std::string(254, 'n') + "[1-65536]").error().message,
              HasSubstr("makes names longer than 253 characters"));
}

TEST(FoldHosts, FoldsRangesAndKeepsLeadingZeros) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, ""},
      {{"n1"}, "n1"},
      {{"n1", "n2", "n3"}, "n[1-3]"},
      {{"n3", "n1", "n2", "n7"}, "n[1-3,7]"},
      {{"n08", "n09", "n10"}, "n[08-10]"},
      {{"n8", "n9", "n10"}, "n[8-10]"},
      {{"n9", "n010"}, "n[9,010]"},
      {{"n1", "n01"}, "n[1,01]"},
      {{"n1", "login", "n2"}, "n[1-2],login"},
      {{"n1.a", "n2.a", "n1.b"}, "n[1-2].a,n1.b"},
      {{"r1n1", "r1n2", "r2n1"}, "r1n[1-2],r2n1"},
      {{"10.0.0.1", "10.0.0.2"}, "10.0.0.[1-2]"},
      {{"::1", "fe80::2"}, "::1,fe80::2"},
      {{"n99999999999999999999"}, "n99999999999999999999"},
      {{"n1-ib", "n2-ib"}, "n[1-2]-ib"},
  };
  for (const auto& [hosts, text] : cases) EXPECT_EQ(fold_hosts(hosts), text);
}

TEST(SplitHostList, SplitsOutsideBracketsOnly) {
  EXPECT_THAT(split_host_list("a,n[1,2]:4,[::1]"), testing::ElementsAre("a", "n[1,2]:4", "[::1]"));
  EXPECT_THAT(split_host_list(""), testing::ElementsAre(""));
}

}  // namespace
}  // namespace hvdrun
