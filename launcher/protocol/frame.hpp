// The frames on the link between launcher and agent: how they are cut out of a byte stream.
//
//   length u32 | type u16 | reserved u16 | destination u32 | payload (length bytes)
//
// little endian. `destination` is a host index, so that a tree of agents can forward frames.
// The first frame each way is `hello`, whose payload starts with the protocol version.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

enum class FrameType : std::uint16_t {
  // agent → launcher
  hello = 1,
  started,
  output,
  output_closed,
  input_credit,
  exited,
  aborted,
  states,
  paused,
  note,
  failed,
  done,
  fence,  // a host's part in a PMIx fence; see pmix_messages.hpp for these
  fence_expired,
  stalls,  // of its ranks' collectives
  ports,   // the answer to hold_ports
  // launcher → agent
  launch = 64,
  output_credit,
  input,
  input_closed,
  stop,
  kill,
  signal,
  pause,
  resume,
  query_states,
  configure,
  fence_result,
  release,     // all ranks of the job have ended
  hold_ports,  // comes before launch
  // both ways, without payload: a sign of life
  alive = 128,
  // an agent → another one, through the launcher
  modex_request,
  modex_answer,
};

inline constexpr std::uint32_t kProtocolVersion = 2;
inline constexpr std::size_t kFrameHeaderSize = 12;
inline constexpr std::size_t kMaxPayload = 64u << 20;  // an environment at ARG_MAX fits many times
inline constexpr std::uint32_t kToLauncher = 0xffffffffu;

struct Frame {
  FrameType type;
  std::uint32_t destination;
  std::string_view payload;
};

void encode_frame_header(char (&header)[kFrameHeaderSize], FrameType type,
                         std::uint32_t destination, std::size_t payload_size);

// Cuts frames out of bytes as they arrive. Owns its buffer; nothing is copied but what the kernel
// hands over, and a frame's payload is valid until the next call.
class FrameReader {
 public:
  // `text_first`: before the first frame, which is `alive`, there may be text that is not ours:
  // what a login shell prints.
  explicit FrameReader(bool text_first = false) : in_text_(text_first) {}

  // Room to read into, at least `kReadSize` bytes or what the frame in progress still needs.
  struct Room {
    char* data;
    std::size_t size;
  };
  Room room();
  void filled(std::size_t bytes);  // that many of room() hold data now

  enum class Status { frame, need_more };
  // The next whole frame, if there is one. Error: a frame that is too long, or text without end;
  // the stream is lost.
  Result<Status> next(Frame& frame);

  // The beginning of the text before the first frame, and of what has come instead of one.
  std::string text() const;

 private:
  bool skip_text();

  static constexpr std::size_t kReadSize = 128u << 10;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of what was not handed out yet
  std::size_t end_ = 0;    // of what was read
  bool in_text_;
  std::string text_;
  std::size_t skipped_ = 0;
};

}  // namespace hvdrun
