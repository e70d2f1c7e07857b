#include "resources/hostfile.hpp"

#include "../temporary_folder.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;

// Returns "user@name:slots/max_slots port N" of each host, without the fields that are unset.
std::string brief(const std::vector<HostRequest>& hosts) {
  std::string text;
  for (const auto& host : hosts) {
    text += text.empty() ? "" : " ";
    if (!host.user.empty()) text += host.user + "@";
    text += host.name;
    if (host.slots) text += fmt::format(":{}", *host.slots);
    if (host.max_slots) text += fmt::format("/{}", *host.max_slots);
    if (host.port) text += fmt::format(" port {}", *host.port);
  }
  return text;
}

TEST(Hostfile, AcceptsTheFormatsOfOtherLaunchers) {
  const struct {
    const char* what;
    const char* text;
    const char* hosts;
  } cases[] = {
      {"Horovod, Open MPI", "h1 slots=4\nh2 slots=2\n", "h1:4 h2:2"},
      {"Open MPI with blanks", "h1 slots = 4\nh2  slots= 2 max_slots =8\n", "h1:4 h2:2/8"},
      {"Open MPI's other spelling", "h1 slots=4 max-slots=4", "h1:4/4"},
      {"MPICH", "h1:4\nh2:2\n", "h1:4 h2:2"},
      {"a batch system's", "h1\nh1\nh2\n", "h1 h1 h2"},
      {"no newline at the end", "h1", "h1"},
      {"comments and blank lines", "# all\n\n  \t\nh1 slots=1 # the first\n#h2\n", "h1:1"},
      {"Windows", "h1 slots=1\r\nh2\r\n\r\n", "h1:1 h2"},
      {"a byte order mark", "\xef\xbb\xbfh1\n", "h1"},
      {"blanks around a line", "   h1\tslots=3  \n", "h1:3"},
      {"ranges", "n[01-03,7] slots=2\n", "n01:2 n02:2 n03:2 n7:2"},
      {"a range and MPICH's slots", "n[1-2].cluster:8", "n1.cluster:8 n2.cluster:8"},
      {"IPv6", "[::1]:4\n[fe80::1%eth0] slots=2\n", "::1:4 fe80::1%eth0:2"},
      {"IPv4", "10.0.0.[1-2]:4", "10.0.0.1:4 10.0.0.2:4"},
      {"user and port", "bob@h1 port=2222\nh2 user=eve slots=1\nh3 username=ada\n",
       "bob@h1 port 2222 eve@h2:1 ada@h3"},
  };
  for (const auto& test : cases) {
    const auto hosts = parse_hostfile(test.text, "f");
    ASSERT_TRUE(hosts) << test.what << ": " << hosts.error().message;
    EXPECT_EQ(brief(*hosts), test.hosts) << test.what;
  }
}

TEST(Hostfile, RecordsTheLineOfEachHost) {
  const auto hosts = parse_hostfile("# x\nh1\n\nn[1-2]\n", "my.hosts").value();
  EXPECT_EQ(hosts[0].source, "my.hosts:2");
  EXPECT_EQ(hosts[2].source, "my.hosts:4");
}

TEST(Hostfile, NamesTheInvalidLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "f: there is no host in it; put one on each line: n1 slots=4"},
      {"# nothing\n \n", "f: there is no host in it"},
      {"\x7f"
       "ELF\x02\x01\x01",
       "f: this is not a hostfile: it holds binary data"},
      {"h1\nh2 slots=0\n", "f:2: a host needs 1 slot or more; to leave it out, put a # before it"},
      {"h1 slots=-1", "f:1: slots= needs a whole number from 1 to 1000000000, not \"-1\""},
      {"h1 slots=", "f:1: slots= needs a whole number"},
      {"h1 slots=four", "not \"four\""},
      {"h1 slots=99999999999999999999", "not \"99999999999999999999\""},
      {"h1 slots=2 slots=2", "f:1: \"slots=2\" sets the same field a second time"},
      {"h1:2 slots=2", "f:1: \"slots=2\" sets the same field"},
      {"bob@h1 user=eve", "a second time"},
      {"h1 slots=4 max_slots=2", "f:1: max_slots=2 is less than the 4 slots"},
      {"h1 port=0", "f:1: port= needs a whole number from 1 to 65535, not \"0\""},
      {"h1 port=65536", "f:1: port= needs"},
      {"h1 user=-l", "f:1: \"user=-l\" names no user"},
      {"\n\nh1 4\n", "f:3: \"4\" is not known here; a line is: host, and then slots=N"},
      {"h1 cpus=4", "\"cpus=4\" is not known here"},
      {"^h1", "f:1: \"^h1\" has \"^\", which no host's name has"},
      {"-oProxyCommand=x", "f:1: \"-oProxyCommand=x\" is no host's name: it begins with \"-\""},
      {"h1,h2", "f:1: \"h1,h2\" names several hosts"},
      {"@h1", "f:1: \"@h1\" has no user's name before the \"@\""},
      {"::1", "put an IPv6 address in brackets: [::1]:4"},
      {"h1:0", "f:1: \"h1:0\" needs a whole number of slots after the \":\", 1 or more"},
      {"n[1-3", "f:1: \"n[1-3\" has a \"[\" without \"]\""},
      {"n[1-1000000]", "f:1: \"n[1-1000000]\" names more than 65536 hosts"},
      {"n[1-40000]\nm[1-40000]", "f:2: this is beyond 65536 hosts, the most that hvdrun takes"},
  };
  for (const auto& [text, message] : cases) {
    const auto hosts = parse_hostfile(text, "f");
    ASSERT_FALSE(hosts) << text;
    EXPECT_EQ(hosts.error().exit_code, kExitUsage);
    EXPECT_THAT(hosts.error().message, HasSubstr(message)) << text;
  }
}

TEST(Hostfile, RefusesBinaryData) {
  const auto hosts = parse_hostfile(std::string_view("h1\n\0\n", 5), "f");
  ASSERT_FALSE(hosts);
  EXPECT_THAT(hosts.error().message, HasSubstr("holds binary data"));
}

TEST(ReadHostfile, ReadsAFileAndReportsWhyItCannot) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "hosts";
  std::ofstream(file) << "h1 slots=2\nh2 slots=x\n";
  EXPECT_THAT(read_hostfile(file).error().message,
              testing::StartsWith(file.string() + ":2: slots= needs a whole number"));
  std::ofstream(file) << "h1 slots=2\n";
  EXPECT_EQ(brief(read_hostfile(file).value()), "h1:2");

  EXPECT_THAT(read_hostfile(folder.path()).error().message,
              HasSubstr("--hostfile: cannot read " + folder.path().string() + ": Is a directory"));
  const auto missing = read_hostfile(folder.path() / "missing");
  EXPECT_THAT(missing.error().message, HasSubstr("missing: No such file or directory"));
  EXPECT_EQ(missing.error().exit_code, kExitUsage);
  EXPECT_THAT(read_hostfile("/dev/zero").error().message, HasSubstr("larger than 32 MiB"));
  EXPECT_THAT(read_hostfile("/dev/null").error().message, HasSubstr("there is no host in it"));
}

}  // namespace
}  // namespace hvdrun
