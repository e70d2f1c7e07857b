#include "bootstrap/rendezvous_frame.hpp"

#include <algorithm>
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

Digest FrameKey::authenticate(std::size_t length, const Digest& payload) {
  std::vector<std::uint8_t> message;
  for (int shift = 56; shift >= 0; shift -= 8)
    message.push_back(static_cast<std::uint8_t>(number_ >> shift));
  const Length written = write_length(length);
  message.insert(message.end(), written.begin(), written.end());
  message.insert(message.end(), payload.begin(), payload.end());
  ++number_;
  return hmac_sha256(key_, message);
}

Payload::Payload(std::string payload)
    : text(std::move(payload)), digest(sha256(bytes_of(std::as_const(text)))) {}

// Sends head and bytes in one write: of two small ones the second could wait for an
// acknowledgement.
Result<void> send_frame(const Connection& socket, FrameKey& key, const Payload& payload,
                        const Deadline& deadline) {
  const Length length = write_length(payload.text.size());
  const Digest proof = key.authenticate(payload.text.size(), payload.digest);
  std::string frame(length.begin(), length.end());
  frame.append(proof.begin(), proof.end());
  frame += payload.text;
  return send_all(socket, bytes_of(std::as_const(frame)), deadline);
}

Result<std::string> receive_frame(const Connection& socket, FrameKey& key, std::size_t most_bytes,
                                  const Deadline& deadline) {
  FrameReader reader(most_bytes);
  while (true) {
    HVD_TRY(const bool complete, reader.feed(socket, key));
    if (complete) return reader.take();
    HVD_CHECK(wait_for_data(socket.socket(), deadline));
  }
}

Result<bool> FrameReader::feed(const Connection& socket, FrameKey& key) {
  while (true) {
    const auto wanted = in_payload_ ? bytes_of(payload_) : std::span<std::uint8_t>(head_);
    if (have_ < wanted.size()) {
      HVD_TRY(const std::size_t count, receive_some(socket, wanted.subspan(have_)));
      if (count == 0) return false;
      have_ += count;
      continue;
    }
    if (in_payload_) break;
    const std::size_t size = read_length(head_.data());
    if (size > most_bytes_) return too_long(size);
    payload_.resize(size);
    in_payload_ = true;
    have_ = 0;
  }
  Digest sent{};
  std::copy_n(head_.begin() + 4, sent.size(), sent.begin());
  const Digest digest = sha256(bytes_of(std::as_const(payload_)));
  if (!equal_digests(sent, key.authenticate(payload_.size(), digest)))
    return fail(HVD_ERROR_PEER, "what it sent was changed on its way");
  return true;
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
