// Host memory through which device buffers move if NCCL cannot reach them. The CPU waits for the
// stream: this works, but it is not fast. One thread at a time. Error: CUDA has failed.
#pragma once

#include "base/error.hpp"
#include "gpu/cuda_library.hpp"

#include <cstddef>

namespace libhvd {

// Owns pinned memory, which grows as needed.
class HostStage {
 public:
  explicit HostStage(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~HostStage();
  HostStage(const HostStage&) = delete;
  HostStage& operator=(const HostStage&) = delete;

  // Makes room for `bytes` bytes. The contents are lost. Error: there is no memory.
  Result<void> make_room(std::size_t bytes);
  std::byte* data() const { return data_; }

  // Copies from the device, after the work that `stream` has now, and waits.
  Result<void> fetch(std::size_t offset, const void* device, std::size_t bytes, CudaStream stream);
  // Copies back to the device, in the order of the stream, and waits.
  Result<void> store(void* device, std::size_t offset, std::size_t bytes, CudaStream stream);

 private:
  Result<void> copy(void* to, const void* from, std::size_t bytes, CudaStream stream);

  const CudaLibrary& cuda_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace libhvd
