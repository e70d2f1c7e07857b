#include "gpu/host_stage.hpp"

#include <utility>

namespace libhvd {

HostStage::~HostStage() {
  if (data_ != nullptr) cuda_.cudaFreeHost(data_);
}

Result<void> HostStage::make_room(std::size_t bytes) {
  if (bytes <= size_) return {};
  if (data_ != nullptr) cuda_.cudaFreeHost(std::exchange(data_, nullptr));
  size_ = 0;
  void* memory = nullptr;
  HVD_CHECK(cuda_.check(cuda_.cudaMallocHost(&memory, bytes), "cudaMallocHost"));
  data_ = static_cast<std::byte*>(memory);
  size_ = bytes;
  return {};
}

Result<void> HostStage::fetch(std::size_t offset, const void* device, std::size_t bytes,
                              CudaStream stream) {
  return copy(data_ + offset, device, bytes, stream);
}

Result<void> HostStage::store(void* device, std::size_t offset, std::size_t bytes,
                              CudaStream stream) {
  return copy(device, data_ + offset, bytes, stream);
}

Result<void> HostStage::copy(void* to, const void* from, std::size_t bytes, CudaStream stream) {
  if (bytes == 0) return {};
  return cuda_.check(cuda_.cudaMemcpyAsync(to, from, bytes, kCudaMemcpyDefault, stream),
                     "cudaMemcpyAsync");
}

Result<void> HostStage::wait(CudaStream stream) {
  return cuda_.check(cuda_.cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace libhvd
