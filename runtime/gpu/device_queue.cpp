#include "gpu/device_queue.hpp"

#include <memory>

namespace libhvd {

DeviceQueue& DeviceQueue::of(CallOrder& order, const CudaLibrary& cuda) {
  auto& companion = order.companion();
  if (!companion) companion = std::make_unique<DeviceQueue>(cuda);
  return static_cast<DeviceQueue&>(*companion);
}

DeviceQueue::~DeviceQueue() {
  if (last_ != nullptr) cuda_.cudaEventDestroy(last_);
}

Outcome DeviceQueue::come_last(CudaStream stream) {
  if (last_ == nullptr) return Done{};
  return cuda_.check(cuda_.cudaStreamWaitEvent(stream, last_, 0), "cudaStreamWaitEvent");
}

Outcome DeviceQueue::mark(CudaStream stream) {
  if (last_ == nullptr)
    HVD_CHECK(cuda_.check(cuda_.cudaEventCreateWithFlags(&last_, kCudaEventDisableTiming),
                          "cudaEventCreateWithFlags"));
  return cuda_.check(cuda_.cudaEventRecord(last_, stream), "cudaEventRecord");
}

}  // namespace libhvd
