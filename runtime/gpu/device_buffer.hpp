// Device memory of libhvd's own, for what a collective keeps there. Used on one stream.
#pragma once

#include "base/error.hpp"
#include "gpu/cuda_library.hpp"

#include <cstddef>

namespace libhvd {

// Owns the memory.
class DeviceBuffer {
 public:
  // Allocates it on the current device. Error: there is no memory.
  static Result<DeviceBuffer> allocate(const CudaLibrary& cuda, std::size_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  ~DeviceBuffer();  // waits for the work on the device

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  explicit DeviceBuffer(const CudaLibrary& cuda) : cuda_(cuda) {}

  const CudaLibrary& cuda_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace libhvd
