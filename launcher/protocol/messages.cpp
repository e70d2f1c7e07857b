#include "protocol/messages.hpp"

#include "protocol/cbor_depth.hpp"
#include "protocol/message_fields.hpp"
#include "protocol/wire.hpp"

#include <nlohmann/json.hpp>

namespace hvdrun {

template <class T>
Result<T> parse(std::string_view payload) {
  // The JSON library throws. No exception leaves this function.
  try {
    if (is_nested_too_deeply(payload))
      return fail("malformed message on the link: it is nested too deeply");
    T message;
    wire::from_json(wire::Json::from_cbor(payload.begin(), payload.end()), message);
    return message;
  } catch (const wire::Json::exception& error) {
    return fail(std::string("malformed message on the link: ") + error.what());
  }
}

template <class T>
std::string pack(const T& message) {
  std::string payload;
  wire::Json::to_cbor(wire::to_json(message), payload);
  return payload;
}

template Result<ConfigureMessage> parse(std::string_view);
template Result<HelloMessage> parse(std::string_view);
template Result<HoldPortsMessage> parse(std::string_view);
template Result<PortsMessage> parse(std::string_view);
template Result<LaunchMessage> parse(std::string_view);
template Result<StartedMessage> parse(std::string_view);
template Result<ExitedMessage> parse(std::string_view);
template Result<AbortedMessage> parse(std::string_view);
template Result<FailedMessage> parse(std::string_view);
template Result<StopMessage> parse(std::string_view);
template Result<StatesMessage> parse(std::string_view);
template Result<StallsMessage> parse(std::string_view);
template Result<ProgressMessage> parse(std::string_view);
template Result<ApartMessage> parse(std::string_view);
template Result<DoneMessage> parse(std::string_view);

template std::string pack(const ConfigureMessage&);
template std::string pack(const HelloMessage&);
template std::string pack(const HoldPortsMessage&);
template std::string pack(const PortsMessage&);
template std::string pack(const LaunchMessage&);
template std::string pack(const StartedMessage&);
template std::string pack(const ExitedMessage&);
template std::string pack(const AbortedMessage&);
template std::string pack(const FailedMessage&);
template std::string pack(const StopMessage&);
template std::string pack(const StatesMessage&);
template std::string pack(const StallsMessage&);
template std::string pack(const ProgressMessage&);
template std::string pack(const ApartMessage&);
template std::string pack(const DoneMessage&);

std::string pack_output_header(const OutputHeader& header) {
  std::string packed(kOutputHeaderSize, '\0');
  wire::store(packed.data(), header.rank);
  wire::store(packed.data() + 4, header.stream);
  wire::store(packed.data() + 5, header.milliseconds);
  return packed;
}

Result<OutputMessage> parse_output(std::string_view payload) {
  if (payload.size() < kOutputHeaderSize) return fail("an output frame on the link is cut short");
  OutputMessage message;
  message.header.rank = wire::load<std::uint32_t>(payload.data());
  message.header.stream = wire::load<std::uint8_t>(payload.data() + 4);
  message.header.milliseconds = wire::load<std::uint64_t>(payload.data() + 5);
  message.bytes = payload.substr(kOutputHeaderSize);
  return message;
}

std::string pack_input(std::uint32_t rank, std::string_view bytes) {
  std::string packed = pack_number(rank);
  packed += bytes;
  return packed;
}

Result<InputMessage> parse_input(std::string_view payload) {
  if (payload.size() < 4) return fail("an input frame on the link is cut short");
  return InputMessage{wire::load<std::uint32_t>(payload.data()), payload.substr(4)};
}

std::string pack_input_credit(const InputCredit& credit) {
  return pack_number(credit.rank) + pack_number(credit.bytes);
}

Result<InputCredit> parse_input_credit(std::string_view payload) {
  if (payload.size() != 8) return fail("an input credit on the link has the wrong length");
  return InputCredit{wire::load<std::uint32_t>(payload.data()),
                     wire::load<std::uint32_t>(payload.data() + 4)};
}

std::string pack_number(std::uint32_t value) {
  std::string packed(4, '\0');
  wire::store(packed.data(), value);
  return packed;
}

Result<std::uint32_t> parse_number(std::string_view payload) {
  if (payload.size() != 4) return fail("a frame on the link has the wrong length");
  return wire::load<std::uint32_t>(payload.data());
}

}  // namespace hvdrun
