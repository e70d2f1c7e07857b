#include "gpu/fusion_buffer.hpp"

#include <utility>

namespace libhvd {

Result<FusionBuffer> FusionBuffer::create(const CudaLibrary& cuda) {
  FusionBuffer buffer(cuda);
  void* memory = nullptr;
  HVD_CHECK(cuda.check(cuda.cudaMalloc(&memory, kDeviceFusionBytes), "cudaMalloc"));
  buffer.data_ = static_cast<std::byte*>(memory);
  return buffer;
}

FusionBuffer::FusionBuffer(FusionBuffer&& other) noexcept
    : cuda_(other.cuda_), data_(std::exchange(other.data_, nullptr)) {}

FusionBuffer::~FusionBuffer() {
  if (data_ != nullptr) cuda_.cudaFree(data_);
}

}  // namespace libhvd
