#include "common/agent_messages.hpp"

#include "common/wire.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace common {
namespace {

using wire::FieldReader;

// Returns nullopt for a number that is no enumerator, of which the last one is given.
template <class Enum>
std::optional<Enum> take_enum(FieldReader& fields, Enum last) {
  const auto value = fields.take<std::uint8_t>();
  if (!value || *value > static_cast<std::uint8_t>(last)) return std::nullopt;
  return static_cast<Enum>(*value);
}

bool take_zeros(FieldReader& fields, std::size_t size) {
  const auto bytes = fields.fixed(size);
  return bytes && bytes->find_first_not_of('\0') == std::string_view::npos;
}

bool is_kind(std::uint16_t number) {
  const auto kind = static_cast<AgentFrameKind>(number);
  return (kind >= AgentFrameKind::hello && kind <= AgentFrameKind::leave) ||
         (kind >= AgentFrameKind::over && kind <= AgentFrameKind::removed);
}

}  // namespace

MemberNumbers numbers_in(const GenerationGo& go, std::uint32_t rank) {
  const auto& own = go.ranks[rank];
  std::map<std::uint32_t, std::uint32_t> nodes;  // hosts with their numbers, as they are found
  for (const auto& one : go.ranks)
    nodes.emplace(one.host, static_cast<std::uint32_t>(nodes.size()));
  MemberNumbers numbers;
  numbers.rank = rank;
  numbers.size = static_cast<std::uint32_t>(go.ranks.size());
  numbers.local_rank = own.local_rank;
  numbers.local_size = 0;
  numbers.cross_size = 0;
  numbers.node_rank = nodes[own.host];
  numbers.node_count = static_cast<std::uint32_t>(nodes.size());
  for (const auto& one : go.ranks) {
    if (one.host == own.host) ++numbers.local_size;
    if (one.local_rank != own.local_rank) continue;
    ++numbers.cross_size;
    if (nodes[one.host] < numbers.node_rank) ++numbers.cross_rank;
  }
  return numbers;
}

// ---- Frames

std::string encode_agent_frame(const AgentFrame& frame) {
  std::string bytes;
  bytes.reserve(kAgentFrameHeaderSize + frame.payload.size());
  wire::append(bytes, static_cast<std::uint32_t>(frame.payload.size()));
  wire::append(bytes, static_cast<std::uint16_t>(frame.kind));
  wire::append(bytes, std::uint16_t{0});
  wire::append(bytes, frame.generation);
  bytes += frame.payload;
  return bytes;
}

AgentFrameReader::Status AgentFrameReader::next(AgentFrame& frame) {
  buffer_.erase(0, std::exchange(taken_, 0));
  FieldReader fields(buffer_);
  if (buffer_.size() < kAgentFrameHeaderSize) return Status::need_more;
  const std::size_t size = *fields.number();
  const auto kind = *fields.take<std::uint16_t>();
  if (size > most_bytes_ || !is_kind(kind) || !take_zeros(fields, 2)) return Status::malformed;
  const auto generation = *fields.number();
  const auto payload = fields.fixed(size);
  if (!payload) return Status::need_more;
  frame = {static_cast<AgentFrameKind>(kind), generation, *payload};
  taken_ = kAgentFrameHeaderSize + size;
  return Status::frame;
}

// ---- Payloads

std::string encode(const MemberHello& hello) {
  std::string payload(hello.key.begin(), hello.key.end());
  wire::append(payload, hello.member);
  wire::append(payload, hello.pid);
  wire::append(payload, hello.version);
  return payload;
}

std::optional<MemberHello> decode_hello(std::string_view payload) {
  MemberHello hello;
  FieldReader fields(payload);
  const auto key = fields.fixed(hello.key.size());
  const auto member = fields.number();
  const auto pid = fields.number();
  const auto version = fields.number();
  if (!key || !member || !pid || !version || !fields.empty()) return std::nullopt;
  std::copy(key->begin(), key->end(), hello.key.begin());
  hello.member = *member;
  hello.pid = *pid;
  hello.version = *version;
  return hello;
}

std::string encode(const MemberCome& come) {
  std::string payload;
  wire::append(payload, static_cast<std::uint8_t>(come.why));
  wire::append(payload, static_cast<std::uint8_t>(come.failure));
  wire::append(payload, std::uint16_t{0});
  wire::append(payload, come.accused);
  wire::append(payload, come.commits);
  wire::append(payload, come.step);
  payload += come.record;
  return payload;
}

std::optional<MemberCome> decode_come(const AgentFrame& frame) {
  FieldReader fields(frame.payload);
  const auto why = take_enum(fields, ComeReason::asked);
  const auto failure = take_enum(fields, SeenFailure::other);
  const bool zeros = take_zeros(fields, 2);
  const auto accused = fields.number();
  const auto commits = fields.take<std::uint64_t>();
  const auto step = fields.take<std::uint64_t>();
  if (!why || !failure || !zeros || !accused || !commits || !step) return std::nullopt;
  return MemberCome{frame.generation,          *why, *failure, *accused, *commits, *step,
                    std::string(fields.rest())};
}

std::string encode(const MemberPart& part) {
  std::string payload;
  wire::append(payload, part.exchange);
  payload += part.blob;
  return payload;
}

std::optional<MemberPart> decode_part(std::string_view payload) {
  FieldReader fields(payload);
  const auto exchange = fields.number();
  if (!exchange) return std::nullopt;
  return MemberPart{*exchange, fields.rest()};
}

std::string encode(const GenerationOver& over) {
  std::string payload;
  wire::append(payload, static_cast<std::uint8_t>(over.kind));
  payload.append(3, '\0');
  wire::append(payload, static_cast<std::uint32_t>(over.lost.size()));
  for (const auto& lost : over.lost) {
    wire::append(payload, lost.member);
    wire::append_bytes(payload, lost.text);
  }
  return payload;
}

std::optional<GenerationOver> decode_over(const AgentFrame& frame) {
  FieldReader fields(frame.payload);
  const auto kind = take_enum(fields, OverKind::failed);
  const bool zeros = take_zeros(fields, 3);
  const auto count = fields.count(2 * sizeof(std::uint32_t));
  if (!kind || !zeros || !count) return std::nullopt;
  GenerationOver over{frame.generation, *kind, {}};
  for (std::uint32_t i = 0; i < *count; ++i) {
    const auto member = fields.number();
    const auto text = fields.bytes();
    if (!member || !text) return std::nullopt;
    over.lost.push_back({*member, std::string(*text)});
  }
  if (!fields.empty()) return std::nullopt;
  return over;
}

std::string encode(const GenerationGo& go) {
  std::string payload;
  wire::append(payload, go.root);
  wire::append(payload, static_cast<std::uint32_t>(go.ranks.size()));
  for (const auto& rank : go.ranks) {
    wire::append(payload, rank.member);
    wire::append(payload, rank.host);
    wire::append(payload, rank.local_rank);
    wire::append_bytes(payload, rank.record);
  }
  return payload;
}

std::optional<GenerationGo> decode_go(const AgentFrame& frame) {
  FieldReader fields(frame.payload);
  const auto root = fields.number();
  const auto count = fields.count(4 * sizeof(std::uint32_t));
  if (!root || !count || *root >= *count) return std::nullopt;
  GenerationGo go{frame.generation, *root, {}};
  for (std::uint32_t i = 0; i < *count; ++i) {
    const auto member = fields.number();
    const auto host = fields.number();
    const auto local_rank = fields.number();
    const auto record = fields.bytes();
    if (!member || !host || !local_rank || !record) return std::nullopt;
    go.ranks.push_back({*member, *host, *local_rank, std::string(*record)});
  }
  if (!fields.empty()) return std::nullopt;
  return go;
}

std::string encode(const GenerationParts& parts) {
  std::string payload;
  wire::append(payload, parts.exchange);
  wire::append(payload, static_cast<std::uint32_t>(parts.blobs.size()));
  for (const auto& blob : parts.blobs) wire::append_bytes(payload, blob);
  return payload;
}

std::optional<GenerationParts> decode_parts(const AgentFrame& frame) {
  FieldReader fields(frame.payload);
  const auto exchange = fields.number();
  const auto count = fields.count(sizeof(std::uint32_t));
  if (!exchange || !count) return std::nullopt;
  GenerationParts parts{frame.generation, *exchange, {}};
  for (std::uint32_t i = 0; i < *count; ++i) {
    const auto blob = fields.bytes();
    if (!blob) return std::nullopt;
    parts.blobs.emplace_back(*blob);
  }
  if (!fields.empty()) return std::nullopt;
  return parts;
}

std::string encode(const MemberNumbers& numbers) {
  std::string payload;
  for (const auto number :
       {numbers.rank, numbers.size, numbers.local_rank, numbers.local_size, numbers.cross_rank,
        numbers.cross_size, numbers.node_rank, numbers.node_count})
    wire::append(payload, number);
  return payload;
}

std::optional<MemberNumbers> decode_planned(std::string_view payload) {
  FieldReader fields(payload);
  MemberNumbers numbers;
  for (auto* const number :
       {&numbers.rank, &numbers.size, &numbers.local_rank, &numbers.local_size, &numbers.cross_rank,
        &numbers.cross_size, &numbers.node_rank, &numbers.node_count}) {
    const auto value = fields.number();
    if (!value) return std::nullopt;
    *number = *value;
  }
  const bool can_be = numbers.rank < numbers.size && numbers.local_rank < numbers.local_size &&
                      numbers.cross_rank < numbers.cross_size &&
                      numbers.node_rank < numbers.node_count;
  if (!can_be || !fields.empty()) return std::nullopt;
  return numbers;
}

std::string encode_updated(std::uint32_t bits) {
  std::string payload;
  wire::append(payload, bits);
  return payload;
}

std::optional<std::uint32_t> decode_updated(std::string_view payload) {
  FieldReader fields(payload);
  const auto bits = fields.number();
  if (!bits || !fields.empty()) return std::nullopt;
  return bits;
}

}  // namespace common
