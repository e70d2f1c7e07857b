#include "resources/requested_hosts.hpp"

#include "fake_machine.hpp"
#include "resources/hostfile.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace hvdrun {
namespace {

Result<std::vector<Host>> hosts_of(const char* text) {
  const auto requests = parse_hostfile(text, "f");
  if (!requests) return requests.error();
  return requested_hosts({}, *requests, "f", fake_machine(2));
}

// Returns the slots of each host, such as "n1:4 n2:?", with a "!" if the number is fixed.
std::string brief(const std::vector<Host>& hosts) {
  std::string text;
  for (const auto& host : hosts)
    text +=
        fmt::format("{}{}:{}{}", text.empty() ? "" : " ", host.name,
                    host.slots ? std::to_string(*host.slots) : "?", host.slots_fixed ? "!" : "");
  return text;
}

TEST(RequestedHosts, MergeEntriesOfTheSameHost) {
  const struct {
    const char* what;
    const char* text;
    const char* hosts;
  } cases[] = {
      {"in order", "n3:1\nn2:2\nn4\n", "n3:1! n2:2! n4:?"},
      {"a host twice has the sum", "n2:2\nn3:1\nn2:3\n", "n2:5! n3:1!"},
      {"one slot for each entry", "n2\nn2\nn3\nn2\n", "n2:3! n3:?"},
      {"capitals make no difference", "n2:1\nN2:1\n", "n2:2!"},
      {"ranges overlap", "n[2-4]:1\nn[4-5]:1\n", "n2:1! n3:1! n4:2! n5:1!"},
      {"all names of this machine", "localhost:1\nn1:1\n127.0.0.1:1\nn1.cluster:1\n[::1]:1\n",
       "n1.cluster:5!"},
      {"this machine without a number", "n1\nn2\n", "n1.cluster:2 n2:?"},
  };
  for (const auto& test : cases) {
    const auto hosts = hosts_of(test.text);
    ASSERT_TRUE(hosts) << test.what << ": " << hosts.error().message;
    EXPECT_EQ(brief(*hosts), test.hosts) << test.what;
  }
}

TEST(RequestedHosts, OfAnotherUserOnThisMachineAreReachedBySsh) {
  auto machine = fake_machine(2);
  machine.user = "anna";
  const auto host_of = [&](const char* text) {
    return requested_hosts({}, parse_hostfile(text, "f").value(), "f", machine).value().at(0);
  };
  for (const auto* text : {"bob@localhost:1\n", "n1 slots=1 user=bob\n"}) {
    const auto host = host_of(text);
    EXPECT_FALSE(host.is_this_machine) << text;
    EXPECT_EQ(host.user, "bob") << text;
    EXPECT_EQ(host.slots, 1) << text;
  }
  EXPECT_TRUE(host_of("anna@localhost:1\n").is_this_machine);
  const auto both =
      requested_hosts({}, parse_hostfile("bob@localhost:1\nn1:1\n", "f").value(), "f", machine);
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().message, testing::HasSubstr("another user"));
}

TEST(RequestedHosts, KeepAddressUserPortAndMaxSlots) {
  const auto hosts = hosts_of("bob@n2:2 port=2222 max_slots=4\nlocalhost:1\n").value();
  EXPECT_EQ(hosts[0].address, "n2");
  EXPECT_EQ(hosts[0].user, "bob");
  EXPECT_EQ(hosts[0].port, 2222);
  EXPECT_EQ(hosts[0].max_slots, 4);
  EXPECT_EQ(hosts[0].slots_source, "f");
  EXPECT_FALSE(hosts[0].is_this_machine);
  EXPECT_FALSE(hosts[0].inventory);
  EXPECT_TRUE(hosts[1].is_this_machine);
  EXPECT_TRUE(hosts[1].inventory);
  EXPECT_EQ(hosts_of("n2\nn2\n").value()[0].slots_source, "f, named 2 times");
}

TEST(RequestedHosts, RefuseContradictions) {
  const std::pair<const char*, const char*> cases[] = {
      {"n2:2\nn3\nn2\n",
       "f:3: n2 is named with a number of slots in one place and without in another (f:1); write "
       "the slots in both, or the host once"},
      {"n2\nn2:2\n", "f:2: n2 is named with a number of slots in one place and without"},
      {"localhost:1\nn1\n", "f:2: n1 is named with a number"},
      {"n2:1 port=22\nn2:1\n",
       "f:2: n2 has another port here than before (f:1); write the same in both places"},
      {"bob@n2\neve@n2\n", "f:2: n2 has another user here than before (f:1)"},
      {"n2:1000000000\nn2:1000000000\nn2:1000000000\n",
       "f:3: the slots of n2 are too many to count"},
  };
  for (const auto& [text, message] : cases) {
    const auto hosts = hosts_of(text);
    ASSERT_FALSE(hosts) << text;
    EXPECT_EQ(hosts.error().exit_code, kExitUsage);
    EXPECT_THAT(hosts.error().message, testing::StartsWith(message)) << text;
  }
}

}  // namespace
}  // namespace hvdrun
