#include "gpu/device_queue.hpp"

#include <memory>

namespace libhvd {

DeviceQueue& DeviceQueue::of(CallOrder& order, const CudaLibrary& cuda) {
  auto& device_state = order.device_state();
  if (!device_state) device_state = std::make_unique<DeviceQueue>(cuda);
  return static_cast<DeviceQueue&>(*device_state);
}

DeviceQueue::~DeviceQueue() {
  if (last_ != nullptr) cuda_.cudaEventDestroy(last_);
}

Result<void> DeviceQueue::come_last(CudaStream stream) {
  if (last_ == nullptr) return {};
  return cuda_.check(cuda_.cudaStreamWaitEvent(stream, last_, 0), "cudaStreamWaitEvent");
}

Result<void> DeviceQueue::mark(CudaStream stream) {
  if (last_ == nullptr)
    HVD_CHECK(cuda_.check(cuda_.cudaEventCreateWithFlags(&last_, kCudaEventDisableTiming),
                          "cudaEventCreateWithFlags"));
  return cuda_.check(cuda_.cudaEventRecord(last_, stream), "cudaEventRecord");
}

}  // namespace libhvd
