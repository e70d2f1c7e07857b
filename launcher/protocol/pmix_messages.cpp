#include "protocol/pmix_messages.hpp"

#include "common/wire.hpp"

#include <algorithm>
#include <functional>
#include <optional>

namespace hvdrun {
namespace {

using wire::FieldReader;

void append_status(std::string& to, std::int32_t status) {
  wire::append(to, static_cast<std::uint32_t>(status));
}

std::optional<std::int32_t> take_status(FieldReader& fields) {
  const auto value = fields.number();
  if (!value) return std::nullopt;
  return static_cast<std::int32_t>(*value);
}

bool ascending(const std::vector<std::uint32_t>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
}

void append_values(std::string& to, const std::vector<PublishedValue>& values) {
  wire::append(to, static_cast<std::uint32_t>(values.size()));
  for (const auto& value : values) {
    wire::append(to, value.rank);
    wire::append_bytes(to, value.key);
    wire::append_bytes(to, value.value);
  }
}

std::optional<std::vector<PublishedValue>> take_values(FieldReader& fields) {
  const auto count = fields.count(3 * sizeof(std::uint32_t));
  if (!count) return std::nullopt;
  std::vector<PublishedValue> values;
  for (std::uint32_t i = 0; i < *count; ++i) {
    const auto rank = fields.number();
    const auto key = fields.bytes();
    const auto value = fields.bytes();
    if (!rank || !key || !value) return std::nullopt;
    values.push_back({*rank, *key, *value});
  }
  return values;
}

constexpr std::uint32_t kOnce = 1;
constexpr std::uint32_t kWaits = 2;

Error malformed(const char* what) {
  return fail(std::string("malformed ") + what + " on the link");
}

}  // namespace

std::string pack_fence_key(std::uint32_t number, std::string_view purpose,
                           const std::vector<std::uint32_t>& ranks) {
  std::string key;
  key.reserve((ranks.size() + 2) * sizeof number + purpose.size());
  wire::append(key, number);
  wire::append_bytes(key, purpose);
  for (const auto rank : ranks) wire::append(key, rank);
  return key;
}

std::string pack_fence(const FenceMessage& message) {
  std::string payload;
  payload.reserve((message.hosts.size() + 3) * sizeof(std::uint32_t) + message.key.size() +
                  message.data.size());
  wire::append_bytes(payload, message.key);
  wire::append_numbers(payload, message.hosts);
  append_status(payload, message.status);
  payload += message.data;
  return payload;
}

Result<FenceMessage> parse_fence(std::string_view payload) {
  FieldReader fields(payload);
  const auto key = fields.bytes();
  auto hosts = fields.numbers();
  const auto status = take_status(fields);
  if (!key || !hosts || !status || hosts->empty() || !ascending(*hosts)) return malformed("fence");
  return FenceMessage{*key, std::move(*hosts), *status, fields.rest()};
}

std::string pack_fence_result(std::string_view key, std::int32_t status, std::size_t data_size) {
  std::string payload;
  payload.reserve(2 * sizeof(std::uint32_t) + key.size() + data_size);
  wire::append_bytes(payload, key);
  append_status(payload, status);
  return payload;
}

Result<FenceResult> parse_fence_result(std::string_view payload) {
  FieldReader fields(payload);
  const auto key = fields.bytes();
  const auto status = take_status(fields);
  if (!key || !status) return malformed("fence result");
  return FenceResult{*key, *status, fields.rest()};
}

std::string pack_modex_request(const ModexRequest& request) {
  std::string payload;
  wire::append(payload, request.asker);
  wire::append(payload, request.rank);
  return payload;
}

Result<ModexRequest> parse_modex_request(std::string_view payload) {
  FieldReader fields(payload);
  const auto asker = fields.number();
  const auto rank = fields.number();
  if (!asker || !rank || !fields.empty()) return malformed("modex request");
  return ModexRequest{*asker, *rank};
}

std::string pack_modex_answer(const ModexAnswer& answer) {
  std::string payload = pack_modex_request(answer.request);
  payload.reserve(payload.size() + sizeof answer.status + answer.data.size());
  append_status(payload, answer.status);
  payload += answer.data;
  return payload;
}

Result<ModexAnswer> parse_modex_answer(std::string_view payload) {
  FieldReader fields(payload);
  const auto asker = fields.number();
  const auto rank = fields.number();
  const auto status = take_status(fields);
  if (!asker || !rank || !status) return malformed("modex answer");
  return ModexAnswer{{*asker, *rank}, *status, fields.rest()};
}

std::string pack_names_request(const NamesRequest& request) {
  std::string payload;
  wire::append(payload, request.number);
  wire::append(payload, static_cast<std::uint32_t>(request.operation));
  wire::append(payload, (request.once ? kOnce : 0) | (request.waits ? kWaits : 0));
  append_values(payload, request.values);
  return payload;
}

Result<NamesRequest> parse_names_request(std::string_view payload) {
  using enum NamesRequest::Operation;
  FieldReader fields(payload);
  const auto number = fields.number();
  const auto operation = fields.number();
  const auto flags = fields.number();
  auto values = take_values(fields);
  if (!number || !operation || !flags || !values || !fields.empty() ||
      *operation > static_cast<std::uint32_t>(expire))
    return malformed("request for names");
  return NamesRequest{*number, static_cast<NamesRequest::Operation>(*operation),
                      (*flags & kOnce) != 0, (*flags & kWaits) != 0, std::move(*values)};
}

std::string pack_names_answer(const NamesAnswer& answer) {
  std::string payload;
  wire::append(payload, answer.number);
  append_status(payload, answer.status);
  append_values(payload, answer.values);
  return payload;
}

Result<NamesAnswer> parse_names_answer(std::string_view payload) {
  FieldReader fields(payload);
  const auto number = fields.number();
  const auto status = take_status(fields);
  auto values = take_values(fields);
  if (!number || !status || !values || !fields.empty()) return malformed("answer for names");
  return NamesAnswer{*number, *status, std::move(*values)};
}

}  // namespace hvdrun
