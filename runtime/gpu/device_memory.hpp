// Host memory through which device buffers go where NCCL cannot reach them.
//
// The CPU waits for the stream: this is a way that works, not a fast one.
#pragma once

#include "base/result.hpp"
#include "gpu/cuda_library.hpp"

#include <cstddef>

namespace libhvd {

// Pinned memory, which grows as needed and is kept.
class HostStage {
 public:
  explicit HostStage(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~HostStage();
  HostStage(const HostStage&) = delete;
  HostStage& operator=(const HostStage&) = delete;

  // Room for so many bytes; what was there before is lost. Error: there is no memory.
  Result<void> make_room(std::size_t bytes);
  std::byte* data() const { return data_; }

  // What is on the device when `stream` has come so far.
  Result<void> fetch(std::size_t offset, const void* device, std::size_t bytes, CudaStream stream);
  // Back, ordered on the stream; it is there on return.
  Result<void> store(void* device, std::size_t offset, std::size_t bytes, CudaStream stream);

 private:
  Result<void> copy(void* to, const void* from, std::size_t bytes, CudaStream stream);

  const CudaLibrary& cuda_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Device memory in which small tensors are put together, so that NCCL reduces them as one.

// Pieces begin where 16-byte words and NCCL's own reach well.
inline constexpr std::size_t kPieceAlignment = 256;
inline constexpr std::size_t kLargestDevicePiece = 1u << 20;  // larger ones gain nothing
inline constexpr std::size_t kDeviceFusionBytes = 16u << 20;  // all together

constexpr std::size_t aligned_piece(std::size_t bytes) {
  return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}

// Used on one stream.
class FusionBuffer {
 public:
  // On the device that is current. Error: there is no memory.
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
