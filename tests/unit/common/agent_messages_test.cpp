#include "common/agent_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace common {
namespace {

using Status = AgentFrameReader::Status;

AgentFrame frame_of(AgentFrameKind kind, std::uint32_t generation, std::string_view payload) {
  return {kind, generation, payload};
}

GenerationGo example_go() {
  return {3, 1, {{4, 7, 0, "a"}, {2, 5, 1, ""}, {9, 5, 0, std::string("b\0c", 3)}}};
}

TEST(AgentFrames, AreCutOutOfAStreamHoweverItArrives) {
  const auto stream = encode_agent_frame({AgentFrameKind::come, 7, "abc"}) +
                      encode_agent_frame({AgentFrameKind::leave, 0, ""});
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    AgentFrameReader reader(16);
    std::vector<std::string> frames;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(std::string_view(stream).substr(at, piece));
      AgentFrame frame;
      while (reader.next(frame) == Status::frame)
        frames.push_back(std::to_string(static_cast<int>(frame.kind)) + " " +
                         std::to_string(frame.generation) + " " + std::string(frame.payload));
    }
    EXPECT_EQ(frames, (std::vector<std::string>{"2 7 abc", "5 0 "})) << piece;
  }
}

TEST(AgentFrames, BeginWithTheirHeaderInLittleEndian) {
  EXPECT_EQ(encode_agent_frame({AgentFrameKind::go, 0x01020304, "x"}),
            std::string("\1\0\0\0\x41\0\0\0\4\3\2\1x", 13));
}

TEST(AgentFrames, AreRefusedIfTheyAreTooLongOrUnknown) {
  AgentFrame frame;
  AgentFrameReader too_long(2);
  too_long.feed(encode_agent_frame({AgentFrameKind::come, 0, "abc"}).substr(0, 12));
  EXPECT_EQ(too_long.next(frame), Status::malformed);
  AgentFrameReader unknown(16);
  unknown.feed(encode_agent_frame({static_cast<AgentFrameKind>(6), 0, ""}));
  EXPECT_EQ(unknown.next(frame), Status::malformed);
  AgentFrameReader reserved(16);
  auto bytes = encode_agent_frame({AgentFrameKind::come, 0, ""});
  bytes[6] = 1;
  reserved.feed(bytes);
  EXPECT_EQ(reserved.next(frame), Status::malformed);
}

TEST(AgentMessages, WhatMembersSendComesThroughUnchanged) {
  MemberHello hello;
  hello.key.fill(0xab);
  hello.member = 3;
  hello.pid = 1234;
  const auto got_hello = decode_hello(encode(hello));
  ASSERT_TRUE(got_hello);
  EXPECT_EQ(got_hello->key, hello.key);
  EXPECT_EQ(got_hello->member, 3u);
  EXPECT_EQ(got_hello->pid, 1234u);
  EXPECT_EQ(got_hello->version, kAgentMessagesVersion);

  const MemberCome come{6,       ComeReason::failed, SeenFailure::silent, 8, 1ull << 40, 1ull << 33,
                        "record"};
  const auto payload = encode(come);
  const auto got_come = decode_come(frame_of(AgentFrameKind::come, 6, payload));
  ASSERT_TRUE(got_come);
  EXPECT_EQ(got_come->last_generation, 6u);
  EXPECT_EQ(got_come->why, ComeReason::failed);
  EXPECT_EQ(got_come->failure, SeenFailure::silent);
  EXPECT_EQ(got_come->accused, 8u);
  EXPECT_EQ(got_come->commits, 1ull << 40);
  EXPECT_EQ(got_come->step, 1ull << 33);
  EXPECT_EQ(got_come->record, "record");

  const auto part_payload = encode(MemberPart{2, "blob"});
  const auto got_part = decode_part(part_payload);
  ASSERT_TRUE(got_part);
  EXPECT_EQ(got_part->exchange, 2u);
  EXPECT_EQ(got_part->blob, "blob");
}

TEST(AgentMessages, WhatMembersGetComesThroughUnchanged) {
  const auto over_payload = encode(GenerationOver{2, OverKind::lost, {{1, "a"}, {4, ""}}});
  const auto over = decode_over(frame_of(AgentFrameKind::over, 2, over_payload));
  ASSERT_TRUE(over);
  EXPECT_EQ(over->generation, 2u);
  EXPECT_EQ(over->kind, OverKind::lost);
  ASSERT_EQ(over->lost.size(), 2u);
  EXPECT_EQ(over->lost[1].member, 4u);
  EXPECT_EQ(over->lost[0].text, "a");

  const auto go_payload = encode(example_go());
  const auto go = decode_go(frame_of(AgentFrameKind::go, 3, go_payload));
  ASSERT_TRUE(go);
  EXPECT_EQ(go->generation, 3u);
  EXPECT_EQ(go->root, 1u);
  ASSERT_EQ(go->ranks.size(), 3u);
  EXPECT_EQ(go->ranks[1].member, 2u);
  EXPECT_EQ(go->ranks[1].host, 5u);
  EXPECT_EQ(go->ranks[1].local_rank, 1u);
  EXPECT_EQ(go->ranks[2].record, std::string("b\0c", 3));

  const auto parts_payload = encode(GenerationParts{3, 2, {"x", "", "yz"}});
  const auto parts = decode_parts(frame_of(AgentFrameKind::parts, 3, parts_payload));
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->exchange, 2u);
  EXPECT_EQ(parts->blobs, (std::vector<std::string>{"x", "", "yz"}));

  const MemberNumbers numbers{1, 3, 0, 2, 1, 2, 1, 2};
  EXPECT_EQ(decode_planned(encode(numbers)), numbers);
  EXPECT_EQ(decode_updated(encode_updated(kUpdateAdded)), kUpdateAdded);
}

TEST(AgentMessages, EachMemberFindsItsNumbersInGo) {
  const auto go = example_go();
  EXPECT_EQ(numbers_in(go, 0), (MemberNumbers{0, 3, 0, 1, 0, 2, 0, 2}));
  EXPECT_EQ(numbers_in(go, 1), (MemberNumbers{1, 3, 1, 2, 0, 1, 1, 2}));
  EXPECT_EQ(numbers_in(go, 2), (MemberNumbers{2, 3, 0, 2, 1, 2, 1, 2}));
}

// What is cut short somewhere. The last field of `come` and `part` may have any length.
TEST(AgentMessages, EveryPrefixIsRefused) {
  const auto hello = encode(MemberHello{});
  for (std::size_t size = 0; size < hello.size(); ++size)
    EXPECT_FALSE(decode_hello(hello.substr(0, size))) << size;
  const auto come = encode(MemberCome{});
  for (std::size_t size = 0; size < come.size(); ++size)
    EXPECT_FALSE(decode_come({AgentFrameKind::come, 1, std::string_view(come).substr(0, size)}));
  EXPECT_FALSE(decode_part("\1\0\0"));
  const auto over = encode(GenerationOver{2, OverKind::lost, {{1, "a"}}});
  for (std::size_t size = 0; size < over.size(); ++size)
    EXPECT_FALSE(decode_over({AgentFrameKind::over, 1, std::string_view(over).substr(0, size)}));
  const auto go = encode(example_go());
  for (std::size_t size = 0; size < go.size(); ++size)
    EXPECT_FALSE(decode_go({AgentFrameKind::go, 1, std::string_view(go).substr(0, size)}));
  const auto parts = encode(GenerationParts{3, 2, {"x", "", "yz"}});
  for (std::size_t size = 0; size < parts.size(); ++size)
    EXPECT_FALSE(decode_parts({AgentFrameKind::parts, 1, std::string_view(parts).substr(0, size)}));
  const auto planned = encode(MemberNumbers{});
  for (std::size_t size = 0; size < planned.size(); ++size)
    EXPECT_FALSE(decode_planned(planned.substr(0, size))) << size;
  EXPECT_FALSE(decode_updated("\1\0\0"));
}

TEST(AgentMessages, WhatCannotBeIsRefused) {
  EXPECT_FALSE(decode_hello(encode(MemberHello{}) + "x")) << "more than a hello";
  auto come = encode(MemberCome{});
  come[0] = 3;
  EXPECT_FALSE(decode_come({AgentFrameKind::come, 1, come})) << "an unknown reason";
  auto go = example_go();
  go.root = 3;
  EXPECT_FALSE(decode_go({AgentFrameKind::go, 1, encode(go)})) << "a root that is no rank";
  EXPECT_FALSE(decode_go({AgentFrameKind::go, 1, encode(GenerationGo{})})) << "no rank";
  auto parts = encode(GenerationParts{3, 2, {"x"}});
  parts.replace(4, 4, "\xff\xff\xff\xff");
  EXPECT_FALSE(decode_parts({AgentFrameKind::parts, 1, parts})) << "more parts than bytes";
  EXPECT_FALSE(decode_planned(encode(MemberNumbers{1, 1, 0, 1, 0, 1, 0, 1}))) << "rank 1 of 1";
}

TEST(AgentMessages, AnyBytesCanBeRead) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 60, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(random() % 5);
    static_cast<void>(decode_hello(bytes));
    static_cast<void>(decode_come({AgentFrameKind::come, 1, bytes}));
    static_cast<void>(decode_part(bytes));
    static_cast<void>(decode_over({AgentFrameKind::over, 1, bytes}));
    static_cast<void>(decode_go({AgentFrameKind::go, 1, bytes}));
    static_cast<void>(decode_parts({AgentFrameKind::parts, 1, bytes}));
    static_cast<void>(decode_planned(bytes));
    static_cast<void>(decode_updated(bytes));
  }
}

}  // namespace
}  // namespace common
