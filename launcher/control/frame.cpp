#include "control/frame.hpp"

#include "control/wire.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace hvdrun {

void encode_frame_header(char (&header)[kFrameHeaderSize], FrameType type,
                         std::uint32_t destination, std::size_t payload_size) {
  wire::store(header, static_cast<std::uint32_t>(payload_size));
  wire::store(header + 4, static_cast<std::uint16_t>(type));
  wire::store(header + 6, std::uint16_t{0});
  wire::store(header + 8, destination);
}

FrameReader::Room FrameReader::room() {
  if (begin_ == end_) begin_ = end_ = 0;
  std::size_t wanted = kReadSize;
  if (end_ - begin_ >= kFrameHeaderSize) {
    const auto total =
        kFrameHeaderSize +
        std::min<std::size_t>(wire::load<std::uint32_t>(&buffer_[begin_]), kMaxPayload);
    wanted = std::max(wanted, total - std::min(total, end_ - begin_));
  }
  if (buffer_.size() - end_ < wanted && begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < wanted) buffer_.resize(end_ + wanted);
  return {buffer_.data() + end_, buffer_.size() - end_};
}

void FrameReader::filled(std::size_t bytes) {
  end_ += bytes;
}

Result<FrameReader::Status> FrameReader::next(Frame& frame) {
  if (end_ - begin_ < kFrameHeaderSize) return Status::need_more;
  const char* header = buffer_.data() + begin_;
  const std::size_t length = wire::load<std::uint32_t>(header);
  if (length > kMaxPayload)
    return fail("the link carries a frame of " + std::to_string(length) +
                " bytes; it does not speak hvdrun's protocol, or was damaged");
  if (end_ - begin_ < kFrameHeaderSize + length) return Status::need_more;
  frame.type = static_cast<FrameType>(wire::load<std::uint16_t>(header + 4));
  frame.destination = wire::load<std::uint32_t>(header + 8);
  frame.payload = {header + kFrameHeaderSize, length};
  begin_ += kFrameHeaderSize + length;
  return Status::frame;
}

}  // namespace hvdrun
