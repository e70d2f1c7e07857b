// The messages of the rendezvous after the handshake: frames of a length, an HMAC and bytes. The
// HMAC is over the frame's number, its length and the SHA-256 of the bytes, with a key of the
// connection and direction. So no frame can be changed, left out, repeated or sent back unnoticed.
//
// Values; one thread per connection. Errors are HVD_ERROR_PEER or HVD_ERROR_TIMEOUT.
#pragma once

#include "base/error.hpp"
#include "bootstrap/socket.hpp"
#include "common/sha256.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {

// The key of one direction of a connection. It numbers the frames.
class FrameKey {
 public:
  FrameKey() = default;
  explicit FrameKey(const Digest& key) : key_(key) {}

  // Returns the HMAC of the next frame.
  Digest authenticate(std::size_t length, const Digest& payload);

 private:
  Digest key_{};
  std::uint64_t number_ = 0;
};

// The bytes of a frame, hashed once for all receivers.
struct Payload {
  explicit Payload(std::string payload);
  std::string text;
  Digest digest;
};

Result<void> send_frame(const Connection& socket, FrameKey& key, const Payload& payload,
                        const Deadline& deadline);

// Waits for a frame. Error (HVD_ERROR_PEER): the connection is closed, or the frame is longer than
// `most_bytes` or was changed.
Result<std::string> receive_frame(const Connection& socket, FrameKey& key, std::size_t most_bytes,
                                  const Deadline& deadline);

// Reads one frame without waiting, in as many calls as it takes.
class FrameReader {
 public:
  explicit FrameReader(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // Reads what has arrived. Returns true if the frame is complete; its HMAC is checked then.
  Result<bool> feed(const Connection& socket, FrameKey& key);
  // Returns the bytes of the complete frame.
  std::string take() { return std::move(payload_); }

 private:
  std::size_t most_bytes_;
  std::size_t have_ = 0;  // of the head, then of the payload
  bool in_payload_ = false;
  std::array<std::uint8_t, 4 + sizeof(Digest)> head_{};  // the length, and the HMAC
  std::string payload_;
};

// Joins several blobs into one, and splits it again. Error: malformed bytes.
std::string join_blobs(const std::vector<std::string>& blobs);
Result<std::vector<std::string>> split_blobs(const std::string& joined);

}  // namespace libhvd
