#include "resources/host_names.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(NamesThisMachine, AcceptsItsNamesAndLoopback) {
  const struct {
    const char* host;
    const char* machine;
    bool same;
  } cases[] = {
      {"localhost", "n1", true},  {"127.0.0.1", "n1", true},  {"127.0.1.1", "n1", true},
      {"::1", "n1", true},        {"n1", "n1", true},         {"N1", "n1", true},
      {"n1.cluster", "n1", true}, {"n1", "n1.cluster", true}, {"n1.a", "n1.b", false},
      {"n2", "n1", false},        {"n11", "n1", false},       {"", "n1", false},
      {"127.host", "n1", false},  {"10.0.0.1", "n1", false},  {"10.0.0.1", "10", false},
  };
  for (const auto& test : cases)
    EXPECT_EQ(names_this_machine(test.host, test.machine), test.same)
        << test.host << " on " << test.machine;
}

Host host(const std::string& name, const std::string& address = "") {
  Host made;
  made.name = name;
  made.address = address.empty() ? name : address;
  return made;
}

TEST(HostNames, FindShortAndLongNames) {
  const struct {
    const char* listed;
    Host host;
    bool found;
  } cases[] = {
      {"n1", host("n1"), true},
      {"N1", host("n1"), true},
      {"n1", host("n1.cluster"), true},
      {"n1.cluster", host("n1"), true},
      {"n1.cluster", host("n1.other"), false},
      {"n1", host("n11"), false},
      {"10.0.0.1", host("10.0.0.2"), false},
      {"10", host("10.0.0.2"), false},
      {"gpu-a", host("n1", "gpu-a"), true},
      {"localhost", host("n1"), false},
      {"fe80::1", host("fe80::1"), true},
  };
  for (const auto& test : cases) {
    HostNames names({test.listed});
    EXPECT_EQ(names.contains(test.host), test.found) << test.listed << " " << test.host.name;
    EXPECT_EQ(names.unused().empty(), test.found) << test.listed;
  }
}

TEST(HostNames, KnowThisMachine) {
  Host here = host("n1");
  here.is_this_machine = true;
  EXPECT_TRUE(HostNames({"localhost"}).contains(here));
  EXPECT_TRUE(HostNames({"127.0.0.1"}).contains(here));
  EXPECT_TRUE(HostNames({"n1"}).contains(here));
  EXPECT_FALSE(HostNames({"n2"}).contains(here));
}

TEST(HostNames, ListTheUnusedNames) {
  HostNames names({"n1", "n2", "n1.cluster"});
  EXPECT_TRUE(names.contains(host("n1.cluster")));
  EXPECT_EQ(names.unused(), std::vector<std::string>{"n2"});
}

}  // namespace
}  // namespace hvdrun
