// What comes over the socket between a member of a job and its agent: any bytes, cut anywhere.
#include "common/agent_messages.hpp"
#include "expect.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

using namespace common;

namespace {

// What can be decoded is the same when it is encoded and decoded again. decode(payload) returns an
// optional.
template <class Decode>
void expect_same_again(std::string_view payload, const Decode& decode) {
  const auto value = decode(payload);
  if (!value) return;
  const std::string bytes = encode(*value);
  FUZZ_EXPECT(bytes == payload);
}

void decode_as_everything(const AgentFrame& frame) {
  const auto in_frame = [&](std::string_view payload) {
    return AgentFrame{frame.kind, frame.generation, payload};
  };
  expect_same_again(frame.payload, decode_hello);
  expect_same_again(frame.payload, [&](auto payload) { return decode_come(in_frame(payload)); });
  expect_same_again(frame.payload, decode_part);
  expect_same_again(frame.payload, [&](auto payload) { return decode_over(in_frame(payload)); });
  expect_same_again(frame.payload, [&](auto payload) { return decode_parts(in_frame(payload)); });
  expect_same_again(frame.payload, decode_planned);
  static_cast<void>(decode_updated(frame.payload));
  const auto go = decode_go(frame);
  if (!go) return;
  FUZZ_EXPECT(encode(*go) == frame.payload);
  for (std::uint32_t rank = 0; rank < std::min<std::size_t>(go->ranks.size(), 8); ++rank) {
    const auto numbers = numbers_in(*go, rank);
    FUZZ_EXPECT(numbers.local_size <= numbers.size && numbers.node_rank < numbers.node_count &&
                numbers.cross_size >= 1);
  }
}

}  // namespace

// The first byte says how large the pieces are in which the others arrive.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] + 1u;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  AgentFrameReader reader(kMostFromMember);
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    reader.feed(stream.substr(at, piece));
    AgentFrame frame;
    while (true) {
      const auto status = reader.next(frame);
      if (status == AgentFrameReader::Status::malformed) return 0;
      if (status == AgentFrameReader::Status::need_more) break;
      decode_as_everything(frame);
    }
  }
  return 0;
}
