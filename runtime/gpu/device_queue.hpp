// The order of NCCL's work on this rank's GPU.
//
// Work that was put on two streams may run at the same time or in either order. NCCL's kernels then
// take the GPU's processors from each other while they wait for their peers, for ever where the
// peers' GPUs have chosen otherwise (NCCL User Guide, "Using multiple NCCL communicators
// concurrently"). So the work of each call waits for that of the call before, on whatever stream.
#pragma once

#include "base/result.hpp"
#include "collective/call_order.hpp"
#include "gpu/cuda_library.hpp"

namespace libhvd {

// Used by the call whose turn it is.
class DeviceQueue : public Companion {
 public:
  // The order's own, made when there is none.
  static DeviceQueue& of(CallOrder& order, const CudaLibrary& cuda);

  explicit DeviceQueue(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~DeviceQueue() override;

  // What is put on the stream from here on runs after all that is in the queue.
  Outcome come_last(CudaStream stream);
  // What the stream has now is in the queue.
  Outcome mark(CudaStream stream);

 private:
  CudaLibrary cuda_;
  CudaEventRef last_ = nullptr;  // null: nothing is in it
};

}  // namespace libhvd
