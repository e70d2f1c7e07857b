#include "bootstrap/frame.hpp"

#include <array>
#include <utility>

namespace libhvd {
namespace {

using Length = std::array<std::uint8_t, 4>;

Length write_length(std::size_t length) {
  return {static_cast<std::uint8_t>(length >> 24), static_cast<std::uint8_t>(length >> 16),
          static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length)};
}

std::size_t read_length(const std::uint8_t* bytes) {
  return (static_cast<std::size_t>(bytes[0]) << 24) | (static_cast<std::size_t>(bytes[1]) << 16) |
         (static_cast<std::size_t>(bytes[2]) << 8) | bytes[3];
}

std::span<std::uint8_t> bytes_of(std::string& text) {
  return {reinterpret_cast<std::uint8_t*>(text.data()), text.size()};
}

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

Error too_long(std::size_t length) {
  return fail(HVD_ERROR_PEER, "a message of " + std::to_string(length) + " bytes was announced");
}

}  // namespace

// In one piece: two small ones would wait for an acknowledgement between them.
Outcome send_frame(const Fd& socket, const std::string& payload, const Deadline& deadline) {
  const Length length = write_length(payload.size());
  std::string frame(length.begin(), length.end());
  frame += payload;
  return send_all(socket, bytes_of(std::as_const(frame)), deadline);
}

Result<std::string> receive_frame(const Fd& socket, std::size_t most_bytes,
                                  const Deadline& deadline) {
  Length length{};
  HVD_CHECK(receive_all(socket, length, deadline));
  const std::size_t size = read_length(length.data());
  if (size > most_bytes) return too_long(size);
  std::string payload(size, '\0');
  HVD_CHECK(receive_all(socket, bytes_of(payload), deadline));
  return payload;
}

Result<bool> FrameReader::feed(const Fd& socket) {
  while (true) {
    const auto wanted = in_payload_ ? bytes_of(payload_) : std::span<std::uint8_t>(length_);
    if (have_ < wanted.size()) {
      HVD_TRY(const std::size_t count, receive_some(socket, wanted.subspan(have_)));
      if (count == 0) return false;
      have_ += count;
      continue;
    }
    if (in_payload_) return true;
    const std::size_t size = read_length(length_);
    if (size > most_bytes_) return too_long(size);
    payload_.resize(size);
    in_payload_ = true;
    have_ = 0;
  }
}

std::string join_blobs(const std::vector<std::string>& blobs) {
  std::string joined;
  for (const auto& blob : blobs) {
    for (const std::uint8_t byte : write_length(blob.size())) joined += static_cast<char>(byte);
    joined += blob;
  }
  return joined;
}

Result<std::vector<std::string>> split_blobs(const std::string& joined) {
  std::vector<std::string> blobs;
  Bytes rest = bytes_of(joined);
  while (!rest.empty()) {
    if (rest.size() < 4 || read_length(rest.data()) > rest.size() - 4) {
      return fail(HVD_ERROR_PEER, "rank 0 has sent a message that makes no sense");
    }
    const std::size_t length = read_length(rest.data());
    blobs.emplace_back(reinterpret_cast<const char*>(rest.data()) + 4, length);
    rest = rest.subspan(4 + length);
  }
  return blobs;
}

}  // namespace libhvd
