#include "protocol/messages.hpp"

#include "protocol/wire.hpp"

namespace hvdrun {

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
