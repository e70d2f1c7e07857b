#include "job/member_frames.hpp"

#include "protocol/member_messages.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using Numbers = std::vector<std::uint32_t>;

Result<Actions> take(Generations& generations, std::uint32_t host, FrameType type,
                     const FromMember& message) {
  const auto payload = pack_from_member(message);
  return take_member_frame(generations, host, {type, kToLauncher, payload});
}

// A job with one member on each of two hosts. Both have come.
TEST(MemberFrames, FramesOfMembersBecomeFramesToMembers) {
  Generations generations({}, {{0, 0, 0}, {1, 1, 0}});
  MemberCome come;
  come.record = "r";
  ASSERT_TRUE(take(generations, 0, FrameType::come, {0, 0, encode(come)}));
  const auto actions = take(generations, 1, FrameType::come, {1, 0, encode(come)});
  ASSERT_TRUE(actions);
  ASSERT_EQ(actions->size(), 1u);
  const auto frame = frame_of(actions->front());
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->type, FrameType::go);
  EXPECT_EQ(frame->to, (Numbers{0, 1}));
  const auto message = parse_to_members(*frame->payload);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->members, frame->to);
  const auto go = decode_go({AgentFrameKind::go, message->generation, message->payload});
  ASSERT_TRUE(go);
  EXPECT_EQ(go->generation, 1u);
  EXPECT_EQ(go->ranks.at(1).host, 1u);
  EXPECT_EQ(go->ranks.at(1).record, "r");

  ASSERT_TRUE(take(generations, 0, FrameType::part, {0, 1, encode(MemberPart{1, "a"})}));
  const auto parts = take(generations, 1, FrameType::part, {1, 1, encode(MemberPart{1, "b"})});
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 1u);
  const auto parts_frame = frame_of(parts->front());
  ASSERT_TRUE(parts_frame);
  EXPECT_EQ(parts_frame->type, FrameType::parts);
  const auto parts_message = parse_to_members(*parts_frame->payload);
  ASSERT_TRUE(parts_message);
  EXPECT_EQ(decode_parts({AgentFrameKind::parts, 1, parts_message->payload})->blobs,
            (std::vector<std::string>{"a", "b"}));
}

TEST(MemberFrames, AnOverSaysWhoWasLost) {
  Generations generations({}, {{0, 0, 0}, {1, 0, 1}});
  const auto actions = generations.lost(1, "was killed by SIGKILL");
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_FALSE(frame_of(actions[0])) << "action::Lost is for the launcher";
  const auto frame = frame_of(actions[1]);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->type, FrameType::over);
  EXPECT_EQ(frame->to, Numbers{0});
  const auto message = parse_to_members(*frame->payload);
  ASSERT_TRUE(message);
  const auto over = decode_over({AgentFrameKind::over, message->generation, message->payload});
  ASSERT_TRUE(over);
  EXPECT_EQ(over->generation, 1u);
  EXPECT_EQ(over->lost.at(0).text, "was killed by SIGKILL");
}

TEST(MemberFrames, ALeaveIsTaken) {
  Generations generations({}, {{0, 0, 0}});
  ASSERT_TRUE(take(generations, 0, FrameType::leave, {0, 1, ""}));
  EXPECT_EQ(generations.state().members[0].state, Generations::Member::State::left);
}

TEST(MemberFrames, WhatAnAgentMayNotSendIsAnError) {
  Generations generations({}, {{0, 0, 0}});
  EXPECT_FALSE(take(generations, 1, FrameType::leave, {0, 1, ""})) << "a member of another host";
  EXPECT_FALSE(take(generations, 0, FrameType::leave, {7, 1, ""})) << "no member";
  EXPECT_FALSE(take(generations, 0, FrameType::come, {0, 1, "x"})) << "malformed";
  EXPECT_FALSE(take_member_frame(generations, 0, {FrameType::come, kToLauncher, "x"}));
}

}  // namespace
}  // namespace hvdrun
