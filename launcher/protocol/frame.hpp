// The frames on the link between launcher and agent, and how they are cut out of a byte stream:
//
//   length u32 | type u16 | reserved u16 | destination u32 | payload (length bytes)
//
// Numbers are little endian. `destination` is a host index, so that a tree of agents can forward
// frames. The first message of an agent is `hello`, that of the launcher to an agent on another
// host `configure`. Both have the protocol version.
//
// Values without I/O, for one thread. A stream that does not have this form is an error.
#pragma once

#include "base/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

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
  answer,  // to `question`
  paused,
  note,
  failed,
  done,
  fence,  // a host's part in a PMIx fence; see pmix_messages.hpp for these
  fence_expired,
  stalls,    // of its ranks' collectives
  ports,     // the answer to hold_ports
  progress,  // of its ranks' training
  suspend,   // the user typed Ctrl-Z in a rank's terminal; without payload
  apart,     // for a while none of its ranks was seen to join others
  come,      // of a member of a job that continues when ranks are lost; see member_messages.hpp
  part,
  plan,
  leave,
  disconnected,
  names,  // a rank publishes, looks up or withdraws; see pmix_messages.hpp
  died,   // how the agent ended, as a text; from hvdrun-link, after the agent's last frame
  // (and `signal`: SLURM has sent it to the step of the agent)
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
  question,  // what the ranks do; see QuestionMessage
  configure,
  fence_result,
  release,     // all ranks of the job have ended
  hold_ports,  // before launch
  window,      // the new size of a rank's terminal; see terminal_messages.hpp
  over,        // to members; see member_messages.hpp
  go,
  parts,
  planned,
  updated,
  removed,
  end_member,
  names_answer,
  start_more,  // of a job that gets new ranks
  // both ways, without payload: a sign of life
  alive = 128,
  // an agent → another one, through the launcher
  modex_request,
  modex_answer,
};

inline constexpr std::uint32_t kProtocolVersion = 15;
inline constexpr std::size_t kFrameHeaderSize = 12;
inline constexpr std::size_t kMaxPayload = 64u << 20;  // many times an environment of ARG_MAX
inline constexpr std::uint32_t kToLauncher = 0xffffffffu;

struct Frame {
  FrameType type;
  std::uint32_t destination;
  std::string_view payload;
};

void encode_frame_header(char (&header)[kFrameHeaderSize], FrameType type,
                         std::uint32_t destination, std::size_t payload_size);

// Cuts frames out of bytes as they arrive. Owns its buffer, into which the caller reads, so that
// payloads are not copied. A frame's payload is valid until the next call.
class FrameReader {
 public:
  // `text_first`: before the first frame, which is then `alive`, there may be text of a login
  // shell.
  explicit FrameReader(bool text_first = false) : in_text_(text_first) {}

  // Returns room to read into: at least kReadSize bytes, or what an incomplete frame still needs.
  struct Room {
    char* data;
    std::size_t size;
  };
  Room room();
  void filled(std::size_t bytes);  // that many of room() hold data now

  enum class Status { frame, need_more };
  // Takes the next whole frame, if there is one. Errors, after which the stream is lost: a frame of
  // more than kMaxPayload bytes; more than 1 MiB of text before the first frame.
  Result<Status> next(Frame& frame);

  // Returns the beginning of the text before the first frame, or of what arrived instead of it.
  std::string text() const;

 private:
  void grow(std::size_t size);
  bool skip_text();

  static constexpr std::size_t kReadSize = 128u << 10;
  // Without a first value: most links never fill a page, and a launcher has hundreds.
  std::unique_ptr<char[]> buffer_;
  std::size_t size_ = 0;   // of buffer_
  std::size_t begin_ = 0;  // of the bytes in buffer_ that next() has not taken yet
  std::size_t end_ = 0;    // of the bytes in buffer_
  bool in_text_;
  std::string text_;
  std::size_t skipped_ = 0;
};

// Follows the frames of a stream, to know whether the last one is whole, and one can be added.
class FrameBounds {
 public:
  void passed(std::string_view bytes);
  // Returns whether the last frame is whole.
  bool between_frames() const { return in_header_ == 0 && payload_left_ == 0; }

 private:
  std::array<char, kFrameHeaderSize> header_{};
  std::size_t in_header_ = 0;  // how much of the next header has passed
  std::size_t payload_left_ = 0;
};

}  // namespace hvdrun
