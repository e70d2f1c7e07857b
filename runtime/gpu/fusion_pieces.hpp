// How small tensors in device memory are packed, so that NCCL reduces them as one.
#pragma once

#include <cstddef>

namespace libhvd {

// Pieces begin at a multiple of this, which suits 16-byte words and NCCL's own.
inline constexpr std::size_t kPieceAlignment = 256;
inline constexpr std::size_t kLargestDevicePiece = 1u << 20;  // larger ones gain nothing
inline constexpr std::size_t kDeviceFusionBytes = 16u << 20;  // of all pieces together

constexpr std::size_t aligned_piece(std::size_t bytes) {
  return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}

}  // namespace libhvd
