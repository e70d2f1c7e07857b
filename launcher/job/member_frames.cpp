#include "job/member_frames.hpp"

#include "common/agent_messages.hpp"
#include "protocol/member_messages.hpp"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace hvdrun {
namespace {

MemberFrame make_frame(FrameType type, std::vector<std::uint32_t> to, std::uint32_t generation,
                       const std::string& payload) {
  auto packed = pack_to_members({to, generation, payload});
  return {type, std::make_shared<const std::string>(std::move(packed)), std::move(to)};
}

}  // namespace

Result<Actions> take_member_frame(Generations& generations, std::uint32_t host,
                                  const Frame& frame) {
  HVD_TRY(const auto message, parse_from_member(frame.payload));
  const auto member = message.member;
  const auto& members = generations.state().members;
  if (member >= members.size() || members[member].host != host)
    return fail(
        fmt::format("the agent of host {} sent a message of member {}, which is not on that host",
                    host, member));
  switch (frame.type) {
    case FrameType::come: {
      const auto come = decode_come({AgentFrameKind::come, message.generation, message.payload});
      if (!come) return fail(fmt::format("malformed `come` of member {} on the link", member));
      return generations.came(member, *come);
    }
    case FrameType::part: {
      const auto part = decode_part(message.payload);
      if (!part) return fail(fmt::format("malformed `part` of member {} on the link", member));
      return generations.took_part(member, message.generation, part->exchange, part->blob);
    }
    case FrameType::leave:
      return generations.left(member);
    case FrameType::disconnected:
      return generations.disconnected(member);
    default:
      return Actions();
  }
}

std::optional<MemberFrame> frame_of(const Action& action) {
  if (const auto* const over = std::get_if<action::Over>(&action))
    return make_frame(FrameType::over, over->to, over->over.generation, encode(over->over));
  if (const auto* const go = std::get_if<action::Go>(&action)) {
    std::vector<std::uint32_t> to;
    for (const auto& rank : go->go.ranks) to.push_back(rank.member);
    return make_frame(FrameType::go, std::move(to), go->go.generation, encode(go->go));
  }
  if (const auto* const parts = std::get_if<action::Parts>(&action))
    return make_frame(FrameType::parts, parts->to, parts->parts.generation, encode(parts->parts));
  if (const auto* const updated = std::get_if<action::Updated>(&action))
    return make_frame(FrameType::updated, updated->to, 0, encode_updated(updated->bits));
  if (const auto* const removed = std::get_if<action::Removed>(&action))
    return make_frame(FrameType::removed, {removed->member}, 0, removed->text);
  return std::nullopt;
}

}  // namespace hvdrun
