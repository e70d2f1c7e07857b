#include "channels/ssh_command.hpp"

#include <chrono>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

std::string ssh_line(const SshTarget& target, const SshOptions& options) {
  return fmt::format("{}", fmt::join(ssh_command(target, options, {"--internal-agent"}), " "));
}

const std::string kBegin = "ssh -T -x -a -o BatchMode=yes -o ClearAllForwardings=yes ";

TEST(SshCommand, HasOnlyTheFixedOptionsByDefault) {
  SshOptions options;
  options.agent_path = "/opt/hvd/bin/hvdrun";
  EXPECT_EQ(ssh_line({"n3", "", {}}, options),
            kBegin + "-- n3 exec '/opt/hvd/bin/hvdrun' --internal-agent");
}

TEST(SshCommand, PassesTheUsersOptions) {
  SshOptions options;
  options.agent_path = "/opt/hvd/bin/hvdrun";
  options.port = 2222;
  options.identity = "/home/ann/key";
  options.accept_new = true;
  EXPECT_EQ(ssh_line({"n3", "ann", {}}, options),
            kBegin +
                "-o StrictHostKeyChecking=accept-new -i /home/ann/key -p 2222 -l ann -- n3 "
                "exec '/opt/hvd/bin/hvdrun' --internal-agent");
  EXPECT_EQ(ssh_line({"n3", "", 22}, options),
            kBegin +
                "-o StrictHostKeyChecking=accept-new -i /home/ann/key -p 22 -- n3 "
                "exec '/opt/hvd/bin/hvdrun' --internal-agent");
}

TEST(SshCommand, SetsKeepAliveOnlyWithoutADirectConnection) {
  SshOptions options;
  options.host_timeout = std::chrono::seconds(5);
  EXPECT_NE(
      ssh_line({"n3", "", {}}, options).find("-o ServerAliveInterval=1 -o ServerAliveCountMax=4 "),
      std::string::npos);
  options.direct = true;
  EXPECT_NE(ssh_line({"n3", "", {}}, options).find("-o ServerAliveInterval=0 -o Clear"),
            std::string::npos);
}

// A host's name that looks like an option stays a name. A path stays one word for the remote shell.
TEST(SshCommand, QuotesHostNamesAndPaths) {
  SshOptions options;
  options.agent_path = "/a b/$(reboot)/it's";
  const auto words =
      ssh_command({"-oProxyCommand=reboot", "", {}}, options, {"--internal-agent", "x"});
  ASSERT_GE(words.size(), 3u);
  EXPECT_EQ(words[words.size() - 3], "--");
  EXPECT_EQ(words.back(), "exec '/a b/$(reboot)/it'\\''s' --internal-agent x");
}

TEST(SshCommand, StartsASentAgentThroughAShell) {
  SshOptions options;
  options.agent_path = "/opt/hvd/bin/hvdrun";
  options.sent = SentAgent{"0.1.0-abc", "", "x86_64"};
  const auto line = remote_command(options, {"--internal-agent"});
  EXPECT_EQ(line.find("exec '/bin/sh' -c '"), 0u) << line;
  const std::string end = "' hvdrun 0.1.0-abc '' /opt/hvd/bin/hvdrun --internal-agent";
  EXPECT_EQ(line.substr(line.size() - end.size()), end);
}

}  // namespace
}  // namespace hvdrun
