#include "protocol/member_messages.hpp"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(MemberMessages, WhatAMemberSendsComesThroughUnchanged) {
  const auto payload = pack_from_member({3, 7, "abc"});
  const auto got = parse_from_member(payload);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->member, 3u);
  EXPECT_EQ(got->generation, 7u);
  EXPECT_EQ(got->payload, "abc");
}

TEST(MemberMessages, WhatMembersGetComesThroughUnchanged) {
  const auto payload = pack_to_members({{3, 9}, 7, "abc"});
  const auto got = parse_to_members(payload);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->members, (std::vector<std::uint32_t>{3, 9}));
  EXPECT_EQ(got->generation, 7u);
  EXPECT_EQ(got->payload, "abc");
}

TEST(MemberMessages, EachFrameOfAMemberButHelloHasATypeOnTheLink) {
  EXPECT_EQ(frame_type_of(AgentFrameKind::hello), std::nullopt);
  for (const auto kind :
       {AgentFrameKind::come, AgentFrameKind::part, AgentFrameKind::plan, AgentFrameKind::leave,
        AgentFrameKind::over, AgentFrameKind::go, AgentFrameKind::parts, AgentFrameKind::planned,
        AgentFrameKind::updated, AgentFrameKind::removed}) {
    const auto type = frame_type_of(kind);
    ASSERT_TRUE(type) << static_cast<int>(kind);
    EXPECT_EQ(agent_frame_kind_of(*type), kind);
  }
  EXPECT_EQ(agent_frame_kind_of(FrameType::launch), std::nullopt);
}

TEST(MemberMessages, EveryPrefixOfTheirHeadersIsRefused) {
  const auto from = pack_from_member({3, 7, ""});
  for (std::size_t size = 0; size < from.size(); ++size)
    EXPECT_FALSE(parse_from_member(from.substr(0, size))) << size;
  const auto to = pack_to_members({{3, 9}, 7, ""});
  for (std::size_t size = 0; size < to.size(); ++size)
    EXPECT_FALSE(parse_to_members(to.substr(0, size))) << size;
}

TEST(MemberMessages, AnyBytesCanBeRead) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(random() % 5);
    static_cast<void>(parse_from_member(bytes));
    static_cast<void>(parse_to_members(bytes));
  }
}

}  // namespace
}  // namespace hvdrun
