// The order of NCCL's work on this rank's GPU.
//
// Work that was put on two streams may run at the same time or in either order. NCCL's kernels then
// take the GPU's processors from each other while they wait for their peers. They wait for ever if
// the peers' GPUs have chosen another order (NCCL User Guide, "Using multiple NCCL communicators
// concurrently"). So the work of each call waits for that of the call before, on any stream.
//
// Only the call whose turn it is (call_order.hpp) uses it. Error: CUDA has failed.
#pragma once

#include "base/error.hpp"
#include "collective/call_order.hpp"
#include "gpu/cuda_library.hpp"

namespace libhvd {

class DeviceQueue : public DeviceState {
 public:
  // Returns the queue of the order. Makes it if there is none.
  static DeviceQueue& of(CallOrder& order, const CudaLibrary& cuda);

  explicit DeviceQueue(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~DeviceQueue() override;

  // Makes all later work on the stream run after all work in the queue.
  Result<void> come_last(CudaStream stream);
  // Adds to the queue the work that the stream has now.
  Result<void> mark(CudaStream stream);

 private:
  CudaLibrary cuda_;
  CudaEventRef last_ = nullptr;  // null: the queue is empty
};

}  // namespace libhvd
