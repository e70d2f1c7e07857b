#include "gpu/device_buffer.hpp"

#include <utility>

namespace libhvd {

Result<DeviceBuffer> DeviceBuffer::allocate(const CudaLibrary& cuda, std::size_t bytes) {
  DeviceBuffer buffer(cuda);
  void* memory = nullptr;
  HVD_CHECK(cuda.check(cuda.cudaMalloc(&memory, bytes), "cudaMalloc"));
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.size_ = bytes;
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : cuda_(other.cuda_), data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) cuda_.cudaFree(data_);
}

}  // namespace libhvd
