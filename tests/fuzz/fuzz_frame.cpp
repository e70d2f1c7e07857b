// Parses any bytes, in pieces, as the frames and messages of a link.
#include "protocol/frame.hpp"
#include "protocol/member_messages.hpp"
#include "protocol/messages.hpp"
#include "protocol/pmix_messages.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

using namespace hvdrun;

namespace {

void parse_as_everything(std::string_view payload) {
  static_cast<void>(parse<ConfigureMessage>(payload));
  static_cast<void>(parse<HelloMessage>(payload));
  static_cast<void>(parse<HoldPortsMessage>(payload));
  static_cast<void>(parse<PortsMessage>(payload));
  static_cast<void>(parse<LaunchMessage>(payload));
  static_cast<void>(parse<StartedMessage>(payload));
  static_cast<void>(parse<ExitedMessage>(payload));
  static_cast<void>(parse<AbortedMessage>(payload));
  static_cast<void>(parse<FailedMessage>(payload));
  static_cast<void>(parse<StopMessage>(payload));
  static_cast<void>(parse<AnswerMessage>(payload));
  static_cast<void>(parse<StallsMessage>(payload));
  static_cast<void>(parse<ProgressMessage>(payload));
  static_cast<void>(parse<DoneMessage>(payload));
  static_cast<void>(parse_output(payload));
  static_cast<void>(parse_input(payload));
  static_cast<void>(parse_input_credit(payload));
  static_cast<void>(parse_number(payload));
  static_cast<void>(parse_fence(payload));
  static_cast<void>(parse_fence_result(payload));
  static_cast<void>(parse_modex_request(payload));
  static_cast<void>(parse_modex_answer(payload));
  static_cast<void>(parse_from_member(payload));
  static_cast<void>(parse_to_members(payload));
}

}  // namespace

// The first byte sets the size of the pieces in which the others arrive.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] + 1u;
  FrameReader reader;
  for (std::size_t at = 1; at < size;) {
    const auto room = reader.room();
    const auto count = std::min({piece, room.size, size - at});
    std::memcpy(room.data, data + at, count);
    reader.filled(count);
    at += count;
    Frame frame{};
    while (true) {
      const auto status = reader.next(frame);
      if (!status) return 0;
      if (*status == FrameReader::Status::need_more) break;
      parse_as_everything(frame.payload);
    }
  }
  return 0;
}
