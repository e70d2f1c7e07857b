// Device memory into which small tensors are packed, so that NCCL reduces them as one. Used on one
// stream.
#pragma once

#include "base/error.hpp"
#include "gpu/cuda_library.hpp"

#include <cstddef>

namespace libhvd {

// Pieces begin at a multiple of this, which suits 16-byte words and NCCL's own.
inline constexpr std::size_t kPieceAlignment = 256;
inline constexpr std::size_t kLargestDevicePiece = 1u << 20;  // larger ones gain nothing
inline constexpr std::size_t kDeviceFusionBytes = 16u << 20;  // of all pieces together

constexpr std::size_t aligned_piece(std::size_t bytes) {
  return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}

// Owns the memory.
class FusionBuffer {
 public:
  // Allocates it on the current device. Error: there is no memory.
  static Result<FusionBuffer> create(const CudaLibrary& cuda);
  FusionBuffer(FusionBuffer&& other) noexcept;
  FusionBuffer& operator=(FusionBuffer&&) = delete;
  ~FusionBuffer();

  std::byte* data() const { return data_; }  // kDeviceFusionBytes

 private:
  explicit FusionBuffer(const CudaLibrary& cuda) : cuda_(cuda) {}

  const CudaLibrary& cuda_;
  std::byte* data_ = nullptr;
};

}  // namespace libhvd
