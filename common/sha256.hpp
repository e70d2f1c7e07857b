// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for the proof of the job's secret. A connection
// hashes a few hundred bytes, so the code is simple rather than fast. Pure functions and values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace common {

using Digest = std::array<std::uint8_t, 32>;
using Bytes = std::span<const std::uint8_t>;

class Sha256 {
 public:
  void update(Bytes data);
  Digest finish();  // the last call

 private:
  void compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};
  std::size_t filled_ = 0;    // bytes in block_
  std::uint64_t length_ = 0;  // bytes so far
};

Digest sha256(Bytes data);

Digest hmac_sha256(Bytes key, Bytes message);

// Compares in the same time whatever the difference, so that the time shows nothing about it.
bool equal_digests(const Digest& a, const Digest& b);

}  // namespace common
