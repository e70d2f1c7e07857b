#include "protocol/pmix_messages.hpp"

#include "protocol/wire.hpp"

#include <algorithm>
#include <functional>
#include <optional>

namespace hvdrun {
namespace {

void append_number(std::string& to, std::uint32_t value) {
  char bytes[sizeof value];
  wire::store(bytes, value);
  to.append(bytes, sizeof bytes);
}

void append_status(std::string& to, std::int32_t status) {
  append_number(to, static_cast<std::uint32_t>(status));
}

// Takes fields off the front of a payload. Each function returns nullopt if the payload is too
// short for its field.
class FieldReader {
 public:
  explicit FieldReader(std::string_view payload) : rest_(payload) {}

  std::optional<std::uint32_t> number() {
    if (rest_.size() < sizeof(std::uint32_t)) return std::nullopt;
    const auto value = wire::load<std::uint32_t>(rest_.data());
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::optional<std::int32_t> status() {
    const auto value = number();
    if (!value) return std::nullopt;
    return static_cast<std::int32_t>(*value);
  }
  // Takes a size, and that many bytes.
  std::optional<std::string_view> bytes() {
    const auto size = number();
    if (!size || rest_.size() < *size) return std::nullopt;
    const auto piece = rest_.substr(0, *size);
    rest_.remove_prefix(*size);
    return piece;
  }
  // Takes a count, and that many numbers.
  std::optional<std::vector<std::uint32_t>> numbers() {
    const auto count = number();
    if (!count || rest_.size() / sizeof(std::uint32_t) < *count) return std::nullopt;
    std::vector<std::uint32_t> values(*count);
    for (auto& value : values) value = *number();
    return values;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

bool ascending(const std::vector<std::uint32_t>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
}

Error malformed(const char* what) {
  return fail(std::string("malformed ") + what + " on the link");
}

}  // namespace

std::string pack_fence_key(std::uint32_t number, const std::vector<std::uint32_t>& ranks) {
  std::string key;
  key.reserve((ranks.size() + 1) * sizeof number);
  append_number(key, number);
  for (const auto rank : ranks) append_number(key, rank);
  return key;
}

std::string pack_fence(const FenceMessage& message) {
  std::string payload;
  payload.reserve((message.hosts.size() + 3) * sizeof(std::uint32_t) + message.key.size() +
                  message.data.size());
  append_number(payload, static_cast<std::uint32_t>(message.key.size()));
  payload += message.key;
  append_number(payload, static_cast<std::uint32_t>(message.hosts.size()));
  for (const auto host : message.hosts) append_number(payload, host);
  append_status(payload, message.status);
  payload += message.data;
  return payload;
}

Result<FenceMessage> parse_fence(std::string_view payload) {
  FieldReader fields(payload);
  const auto key = fields.bytes();
  auto hosts = fields.numbers();
  const auto status = fields.status();
  if (!key || !hosts || !status || hosts->empty() || !ascending(*hosts)) return malformed("fence");
  return FenceMessage{*key, std::move(*hosts), *status, fields.rest()};
}

std::string pack_fence_result(std::string_view key, std::int32_t status, std::size_t data_size) {
  std::string payload;
  payload.reserve(2 * sizeof(std::uint32_t) + key.size() + data_size);
  append_number(payload, static_cast<std::uint32_t>(key.size()));
  payload += key;
  append_status(payload, status);
  return payload;
}

Result<FenceResult> parse_fence_result(std::string_view payload) {
  FieldReader fields(payload);
  const auto key = fields.bytes();
  const auto status = fields.status();
  if (!key || !status) return malformed("fence result");
  return FenceResult{*key, *status, fields.rest()};
}

std::string pack_modex_request(const ModexRequest& request) {
  std::string payload;
  append_number(payload, request.asker);
  append_number(payload, request.rank);
  return payload;
}

Result<ModexRequest> parse_modex_request(std::string_view payload) {
  FieldReader fields(payload);
  const auto asker = fields.number();
  const auto rank = fields.number();
  if (!asker || !rank || !fields.rest().empty()) return malformed("modex request");
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
  const auto status = fields.status();
  if (!asker || !rank || !status) return malformed("modex answer");
  return ModexAnswer{{*asker, *rank}, *status, fields.rest()};
}

}  // namespace hvdrun
