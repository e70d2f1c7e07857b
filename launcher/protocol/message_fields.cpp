#include "protocol/message_fields.hpp"

#include "protocol/cbor_depth.hpp"

#include <string>
#include <string_view>

namespace hvdrun {

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
template Result<StatesMessage> parse(std::string_view);
template Result<LookMessage> parse(std::string_view);
template Result<LooksMessage> parse(std::string_view);
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
template std::string pack(const StatesMessage&);
template std::string pack(const LookMessage&);
template std::string pack(const LooksMessage&);
template std::string pack(const StallsMessage&);
template std::string pack(const ProgressMessage&);
template std::string pack(const ApartMessage&);
template std::string pack(const DoneMessage&);

}  // namespace hvdrun
