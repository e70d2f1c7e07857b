#include "protocol/agent_hello.hpp"

#include "base/version.hpp"

#include <string>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

AgentCredentials credentials() {
  AgentCredentials made;
  made.version = kVersion;
  made.key = make_link_key("0123456789abcdef");
  made.timeout = std::chrono::seconds(60);
  made.addresses = {{"10.80.0.1", 40123}, {"fd00::1", 65535}};
  return made;
}

TEST(AgentCredentials, AreReadAsWritten) {
  const auto sent = credentials();
  const std::string text = pack_credentials(sent);
  EXPECT_LE(text.size(), kMaxCredentials);
  const auto got = parse_credentials(text);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->key.identity, sent.key.identity);
  EXPECT_EQ(got->key.secret, sent.key.secret);
  EXPECT_EQ(got->timeout, sent.timeout);
  ASSERT_EQ(got->addresses.size(), 2u);
  EXPECT_EQ(got->addresses[1].address, "fd00::1");
  EXPECT_EQ(got->addresses[1].port, 65535);
}

TEST(AgentCredentials, AreCompleteOnlyAtTheirEnd) {
  const std::string text = pack_credentials(credentials());
  for (std::size_t size = 0; size < text.size(); ++size)
    ASSERT_FALSE(is_whole_credentials(text.substr(0, size))) << size;
  EXPECT_TRUE(is_whole_credentials(text));
}

TEST(AgentCredentials, ReportsInvalidTextAsCompleteSoThatNoAgentWaits) {
  EXPECT_TRUE(is_whole_credentials("GET / HTTP/1.1"));
  EXPECT_TRUE(is_whole_credentials("hvdrux"));
  EXPECT_TRUE(is_whole_credentials("hvdrun 1\n" + std::string(kMaxCredentials, 'x')));
}

TEST(AgentCredentials, RefusesAnotherVersionAndNamesBoth) {
  const auto got = parse_credentials("hvdrun 9.9.9\nkey in another way\nend\n");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message, "hvdrun here is version " + std::string(kVersion) +
                                     ", the launcher's is 9.9.9: install the same on both");
  EXPECT_EQ(got.error().exit_code, kExitUsage);
}

TEST(AgentCredentials, RefusesMalformedText) {
  const std::string begin = "hvdrun " + std::string(kVersion) + "\n";
  const std::string key = "key job " + std::string(64, 'a') + "\n";
  const std::string rest = "timeout 60\naddress 127.0.0.1 1\nend\n";
  ASSERT_TRUE(parse_credentials(begin + key + rest));
  for (const auto& text :
       {std::string(), begin, begin + "end\n", begin + rest, begin + key + "timeout 60\nend\n",
        begin + key + "address 127.0.0.1 1\nend\n", key + rest,
        begin + "key job " + std::string(63, 'a') + "\n" + rest,
        begin + "key job " + std::string(62, 'a') + "-1\n" + rest,
        begin + "key " + std::string(65, 'j') + " " + std::string(64, 'a') + "\n" + rest,
        begin + key + "timeout -1\n" + rest, begin + key + "timeout 99999999999\n" + rest,
        begin + key + "address localhost 1\n" + rest,
        begin + key + "address 127.0.0.1 65536\n" + rest, begin + key + "more words\n" + rest,
        begin + key + "address 127.0.0.1  1\n" + rest,
        begin + key + std::string(kMaxCredentials, '\n') + rest})
    EXPECT_FALSE(parse_credentials(text)) << text;
}

TEST(AgentHello, IsReadAsWritten) {
  const std::string text = pack_agent_hello({"n3", 2});
  const auto got = parse_agent_hello(text);
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->host, "n3");
  EXPECT_EQ((*got)->task, 2u);
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto part = parse_agent_hello(text.substr(0, size));
    ASSERT_TRUE(part) << size;
    EXPECT_FALSE(*part) << size;
  }
}

TEST(AgentHello, RefusesMalformedText) {
  for (const std::string text :
       {"\n", "hvdrun n3\n", "hvdrun n3 -1\n", "hvdrun n3 2 x\n", "other n3 2\n", "hvdrun  2\n",
        "hvdrun n\x01 2\n", "hvdrun n3 2\nmore", "hvdrun n3 99999999999\n"})
    EXPECT_FALSE(parse_agent_hello(text)) << text;
  EXPECT_FALSE(parse_agent_hello(std::string(kMaxAgentHello, 'x')));
}

TEST(AgentAccept, IsReadAsWritten) {
  const std::string bytes = pack_agent_accept(70000);
  ASSERT_EQ(bytes.size(), kAgentAcceptSize);
  EXPECT_EQ(parse_agent_accept(bytes).value(), 70000u);
  EXPECT_FALSE(parse_agent_accept(bytes.substr(1)));
  EXPECT_FALSE(parse_agent_accept("X1234"));
}

}  // namespace
}  // namespace hvdrun
