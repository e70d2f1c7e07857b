// What clients and server say to each other after the handshake: frames of a length, an HMAC and
// bytes. The HMAC is over the frame's number, its length and the bytes' SHA-256, with a key of the
// direction and connection: nothing can be changed, left out, repeated or sent back.
#pragma once

#include "base/result.hpp"
#include "bootstrap/socket.hpp"
#include "common/sha256.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace libhvd {

// One direction of a connection.
class FrameKey {
 public:
  FrameKey() = default;
  explicit FrameKey(const Digest& key) : key_(key) {}

  // Of the next frame.
  Digest authenticate(std::size_t length, const Digest& payload);

 private:
  Digest key_{};
  std::uint64_t number_ = 0;
};

// Hashed once, however many it is sent to.
struct Payload {
  explicit Payload(std::string payload);
  std::string text;
  Digest digest;
};

Result<void> send_frame(const Connection& socket, FrameKey& key, const Payload& payload,
                        const Deadline& deadline);

// Error (HVD_ERROR_PEER) also when the frame is longer than `most_bytes`, or not what was sent.
Result<std::string> receive_frame(const Connection& socket, FrameKey& key, std::size_t most_bytes,
                                  const Deadline& deadline);

// A frame that comes in pieces from one of many sockets.
class FrameReader {
 public:
  explicit FrameReader(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // Takes what is there now. True: the frame is complete, and it is what was sent.
  Result<bool> feed(const Connection& socket, FrameKey& key);
  std::string take() { return std::move(payload_); }

 private:
  std::size_t most_bytes_;
  std::size_t have_ = 0;  // of the head, then of the payload
  bool in_payload_ = false;
  std::array<std::uint8_t, 4 + sizeof(Digest)> head_{};  // the length, and the HMAC
  std::string payload_;
};

// Several blobs in one frame.
std::string join_blobs(const std::vector<std::string>& blobs);
Result<std::vector<std::string>> split_blobs(const std::string& joined);

}  // namespace libhvd
