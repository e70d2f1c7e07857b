// Bytes that nobody can guess, from getrandom(2).
#pragma once

#include "base/result.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/random.h>

namespace libhvd {

// At most 256 bytes, which getrandom gives in one piece.
template <std::size_t kCount>
requires(kCount <= 256) Result<std::array<std::uint8_t, kCount>> random_bytes() {
  std::array<std::uint8_t, kCount> bytes{};
  if (::getrandom(bytes.data(), kCount, 0) != static_cast<ssize_t>(kCount)) {
    return fail_errno("cannot get random bytes", errno);
  }
  return bytes;
}

}  // namespace libhvd
