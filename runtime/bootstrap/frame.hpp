// What guests and host say to each other after the handshake: frames of a length and bytes.
#pragma once

#include "base/result.hpp"
#include "bootstrap/socket.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace libhvd {

Outcome send_frame(const Fd& socket, const std::string& payload, const Deadline& deadline);

// Error (HVD_ERROR_PEER) also when the frame is longer than `most_bytes`.
Result<std::string> receive_frame(const Fd& socket, std::size_t most_bytes,
                                  const Deadline& deadline);

// A frame that comes in pieces from one of many sockets.
class FrameReader {
 public:
  explicit FrameReader(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // Takes what is there now. True: the frame is complete.
  Result<bool> feed(const Fd& socket);
  std::string take() { return std::move(payload_); }

 private:
  std::size_t most_bytes_;
  std::size_t have_ = 0;  // of the length, then of the payload
  bool in_payload_ = false;
  std::uint8_t length_[4] = {};
  std::string payload_;
};

// Several blobs in one frame.
std::string join_blobs(const std::vector<std::string>& blobs);
Result<std::vector<std::string>> split_blobs(const std::string& joined);

}  // namespace libhvd
