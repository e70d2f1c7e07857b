#include "protocol/frame.hpp"

#include "common/wire.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace hvdrun {

namespace {

constexpr std::size_t kMostText = 4096;         // bytes of text that are kept for the user
constexpr std::size_t kMostSkipped = 1u << 20;  // bytes of text that are accepted

}  // namespace

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
  if (size_ - end_ < wanted && begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (size_ - end_ < wanted) grow(end_ + wanted);
  return {buffer_.get() + end_, size_ - end_};
}

void FrameReader::grow(std::size_t size) {
  auto larger = std::make_unique_for_overwrite<char[]>(size);
  if (end_ > 0) std::memcpy(larger.get(), buffer_.get(), end_);
  buffer_ = std::move(larger);
  size_ = size;
}

void FrameReader::filled(std::size_t bytes) {
  end_ += bytes;
}

// Skips text before the first frame. Returns whether that frame has arrived.
bool FrameReader::skip_text() {
  char mark[kFrameHeaderSize];
  encode_frame_header(mark, FrameType::alive, kToLauncher, 0);
  const char* const begin = buffer_.get() + begin_;
  const char* const end = buffer_.get() + end_;
  const auto found = std::search(begin, end, std::begin(mark), std::end(mark));
  // Keeps the last bytes, which may be the beginning of the frame.
  const auto keep = found == end ? std::min<std::ptrdiff_t>(end - begin, sizeof mark - 1) : 0;
  const auto text_end = found == end ? end - keep : found;
  const auto text = static_cast<std::size_t>(text_end - begin);
  text_.append(begin, std::min(text, kMostText - std::min(kMostText, text_.size())));
  skipped_ += text;
  begin_ += text;
  in_text_ = found == end;
  return !in_text_;
}

std::string FrameReader::text() const {
  if (!in_text_) return text_;
  return text_ + std::string(buffer_.get() + begin_, end_ - begin_);
}

Result<FrameReader::Status> FrameReader::next(Frame& frame) {
  if (in_text_ && !skip_text()) {
    if (skipped_ <= kMostSkipped) return Status::need_more;
    return fail("the login prints more than 1 MB before hvdrun can start");
  }
  if (end_ - begin_ < kFrameHeaderSize) return Status::need_more;
  const char* header = buffer_.get() + begin_;
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

void FrameBounds::passed(std::string_view bytes) {
  while (!bytes.empty()) {
    std::size_t step = std::min(bytes.size(), payload_left_);
    payload_left_ -= step;
    if (step == 0) {
      step = std::min(bytes.size(), header_.size() - in_header_);
      std::copy_n(bytes.begin(), step, header_.begin() + static_cast<std::ptrdiff_t>(in_header_));
      in_header_ += step;
    }
    bytes.remove_prefix(step);
    if (in_header_ < header_.size()) continue;
    payload_left_ = wire::load<std::uint32_t>(header_.data());
    in_header_ = 0;
  }
}

}  // namespace hvdrun
