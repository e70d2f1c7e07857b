// Host memory through which device buffers move if NCCL cannot reach them. The CPU waits for the
// stream, once for all buffers of a call: this works, but it is not fast. One thread at a time.
// Error: CUDA has failed.
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

  // Enqueue a copy from the device, and one back to it.
  Result<void> fetch(std::size_t offset, const void* device, std::size_t bytes, CudaStream stream);
  Result<void> store(void* device, std::size_t offset, std::size_t bytes, CudaStream stream);
  // Waits until these copies, and all other work that the stream has now, are done.
  Result<void> wait(CudaStream stream);

 private:
  Result<void> copy(void* to, const void* from, std::size_t bytes, CudaStream stream);

  const CudaLibrary& cuda_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace libhvd
