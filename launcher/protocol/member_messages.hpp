// The messages between launcher and agent about the members of a job that continues when ranks are
// lost (--min-np). Pure functions and values.
//
// Agents only relay. What a member sends them (common/agent_messages.hpp) comes to the launcher
// with the member's number, and what the launcher sends has the numbers of the members that are to
// get it. The same payload goes to all agents, each of which serves the members that it has: so it
// is in memory once. Numbers are little endian. parse_* accept any bytes and return an error for a
// malformed message. What they return points into the payload.
//
//   come, part, plan, leave: agent → launcher
//       member u32 | generation u32 | payload: the rest
//   disconnected: agent → launcher, the same with generation 0 and no payload. The member takes
//       part, has lost its connection to the agent, and its process has not ended
//   over, go, parts, planned, updated, removed: launcher → agents
//       count u32 | member u32 each | generation u32 | payload: the rest
//   end_member: launcher → agent, a number: the agent kills the member's processes
#pragma once

#include "base/result.hpp"
#include "common/agent_messages.hpp"
#include "protocol/frame.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The frame on the link that carries what a member sends or gets. nullopt for `hello`, which stays
// at the agent.
std::optional<FrameType> frame_type_of(AgentFrameKind kind);
// Returns nullopt for a frame that carries nothing of members.
std::optional<AgentFrameKind> agent_frame_kind_of(FrameType type);

struct FromMember {
  std::uint32_t member = 0;
  std::uint32_t generation = 0;
  std::string_view payload;
};
std::string pack_from_member(const FromMember&);
Result<FromMember> parse_from_member(std::string_view payload);

struct ToMembers {
  std::vector<std::uint32_t> members;
  std::uint32_t generation = 0;
  std::string_view payload;
};
std::string pack_to_members(const ToMembers&);
Result<ToMembers> parse_to_members(std::string_view payload);

}  // namespace hvdrun
