#include "protocol/message_fields.hpp"

#include "protocol/cbor_depth.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace hvdrun {
namespace {

// Takes the text before the next zero byte; the rest if there is none.
std::string take_text(std::string_view& rest) {
  const auto text = rest.substr(0, rest.find('\0'));
  rest.remove_prefix(std::min(text.size() + 1, rest.size()));
  return std::string(text);
}

}  // namespace

json_fields::Json to_json(const std::vector<LaunchHost>& hosts) {
  LaunchHostColumns columns;
  for (const auto& host : hosts) {
    (columns.names += host.name) += '\0';
    (columns.addresses += host.address) += '\0';
    columns.rank_counts.push_back(host.ranks.size());
    columns.ranks.insert(columns.ranks.end(), host.ranks.begin(), host.ranks.end());
  }
  return json_fields::to_json(columns);
}

void from_json(const json_fields::Json& json, std::vector<LaunchHost>& hosts) {
  LaunchHostColumns columns;
  json_fields::from_json(json, columns);
  std::string_view names = columns.names;
  std::string_view addresses = columns.addresses;
  auto rank = columns.ranks.begin();
  for (const auto count : columns.rank_counts) {
    const auto taken = static_cast<std::ptrdiff_t>(
        std::min(count, static_cast<std::size_t>(columns.ranks.end() - rank)));
    hosts.push_back({take_text(names), {rank, rank + taken}, take_text(addresses)});
    rank += taken;
  }
}

template <class T>
Result<T> parse(std::string_view payload) {
  // The JSON library throws. No exception leaves this function.
  try {
    if (is_nested_too_deeply(payload))
      return fail("malformed message on the link: it is nested too deeply");
    T message;
    json_fields::from_json(json_fields::Json::from_cbor(payload.begin(), payload.end()), message);
    return message;
  } catch (const json_fields::Json::exception& error) {
    return fail(std::string("malformed message on the link: ") + error.what());
  }
}

template <class T>
std::string pack(const T& message) {
  std::string payload;
  json_fields::Json::to_cbor(json_fields::to_json(message), payload);
  return payload;
}

template Result<ConfigureMessage> parse(std::string_view);
template Result<HelloMessage> parse(std::string_view);
template Result<HoldPortsMessage> parse(std::string_view);
template Result<PortsMessage> parse(std::string_view);
template Result<LaunchMessage> parse(std::string_view);
template Result<StartMoreMessage> parse(std::string_view);
template Result<StartedMessage> parse(std::string_view);
template Result<ExitedMessage> parse(std::string_view);
template Result<AbortedMessage> parse(std::string_view);
template Result<FailedMessage> parse(std::string_view);
template Result<StopMessage> parse(std::string_view);
template Result<QuestionMessage> parse(std::string_view);
template Result<AnswerMessage> parse(std::string_view);
template Result<StallsMessage> parse(std::string_view);
template Result<ProgressMessage> parse(std::string_view);
template Result<ApartMessage> parse(std::string_view);
template Result<DoneMessage> parse(std::string_view);

template std::string pack(const ConfigureMessage&);
template std::string pack(const HelloMessage&);
template std::string pack(const HoldPortsMessage&);
template std::string pack(const PortsMessage&);
template std::string pack(const LaunchMessage&);
template std::string pack(const StartMoreMessage&);
template std::string pack(const StartedMessage&);
template std::string pack(const ExitedMessage&);
template std::string pack(const AbortedMessage&);
template std::string pack(const FailedMessage&);
template std::string pack(const StopMessage&);
template std::string pack(const QuestionMessage&);
template std::string pack(const AnswerMessage&);
template std::string pack(const StallsMessage&);
template std::string pack(const ProgressMessage&);
template std::string pack(const ApartMessage&);
template std::string pack(const DoneMessage&);

}  // namespace hvdrun
