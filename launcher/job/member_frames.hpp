// Between a Generations value and the links: frames of members become its events, and its actions
// become frames. Pure functions.
#pragma once

#include "base/result.hpp"
#include "job/generations.hpp"
#include "protocol/frame.hpp"
#include "protocol/link.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace hvdrun {

// Takes a frame of a member from the agent of its host. Error: the agent violates the protocol.
// `plan` has no actions yet.
Result<Actions> take_member_frame(Generations& generations, std::uint32_t host, const Frame& frame);

// A frame for the agents of these members. It is the same for all of them.
struct MemberFrame {
  FrameType type = FrameType::over;
  SharedPayload payload;
  std::vector<std::uint32_t> to;
};

// Returns nullopt for an action that no member gets to know.
std::optional<MemberFrame> frame_of(const Action& action);

}  // namespace hvdrun
