#include "protocol/member_messages.hpp"

#include "common/wire.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::pair<AgentFrameKind, FrameType> kRelayed[] = {
    {AgentFrameKind::come, FrameType::come},       {AgentFrameKind::part, FrameType::part},
    {AgentFrameKind::plan, FrameType::plan},       {AgentFrameKind::leave, FrameType::leave},
    {AgentFrameKind::over, FrameType::over},       {AgentFrameKind::go, FrameType::go},
    {AgentFrameKind::parts, FrameType::parts},     {AgentFrameKind::planned, FrameType::planned},
    {AgentFrameKind::updated, FrameType::updated}, {AgentFrameKind::removed, FrameType::removed},
};

}  // namespace

std::optional<FrameType> frame_type_of(AgentFrameKind kind) {
  const auto* const found = std::find_if(std::begin(kRelayed), std::end(kRelayed),
                                         [kind](const auto& one) { return one.first == kind; });
  if (found == std::end(kRelayed)) return std::nullopt;
  return found->second;
}

std::optional<AgentFrameKind> agent_frame_kind_of(FrameType type) {
  const auto* const found = std::find_if(std::begin(kRelayed), std::end(kRelayed),
                                         [type](const auto& one) { return one.second == type; });
  if (found == std::end(kRelayed)) return std::nullopt;
  return found->first;
}

std::string pack_from_member(const FromMember& message) {
  std::string payload;
  payload.reserve(2 * sizeof(std::uint32_t) + message.payload.size());
  wire::append(payload, message.member);
  wire::append(payload, message.generation);
  payload += message.payload;
  return payload;
}

Result<FromMember> parse_from_member(std::string_view payload) {
  wire::FieldReader fields(payload);
  const auto member = fields.number();
  const auto generation = fields.number();
  if (!member || !generation) return fail("malformed message of a member on the link");
  return FromMember{*member, *generation, fields.rest()};
}

std::string pack_to_members(const ToMembers& message) {
  std::string payload;
  payload.reserve((message.members.size() + 2) * sizeof(std::uint32_t) + message.payload.size());
  wire::append_numbers(payload, message.members);
  wire::append(payload, message.generation);
  payload += message.payload;
  return payload;
}

Result<ToMembers> parse_to_members(std::string_view payload) {
  wire::FieldReader fields(payload);
  auto members = fields.numbers();
  const auto generation = fields.number();
  if (!members || !generation) return fail("malformed message to members on the link");
  return ToMembers{std::move(*members), *generation, fields.rest()};
}

}  // namespace hvdrun
