// The order of NCCL's work on this rank's GPU, and how far the GPU is with it.
//
// Work that was put on two streams may run at the same time or in either order. NCCL's kernels then
// take the GPU's processors from each other while they wait for their peers. They wait for ever if
// the peers' GPUs have chosen another order (NCCL User Guide, "Using multiple NCCL communicators
// concurrently"). So the work of each call waits for that of the call before, on any stream.
//
// A call returns when NCCL has enqueued its work. If one GPU never reaches that work (an endless
// kernel before it, a fault of the GPU), the others wait for it in NCCL's kernel, and every CPU
// waits for its own stream. So an event is recorded before and after the work of each call. They
// show the oldest call that is not done, and whether this rank's GPU has reached it.
//
// Only the call whose turn it is (call_order.hpp) begins and ends. Any thread of libhvd's own
// looks. Error: CUDA has failed.
#pragma once

#include "base/error.hpp"
#include "collective/call_order.hpp"
#include "collective/communicator.hpp"
#include "gpu/cuda_library.hpp"

#include <deque>
#include <mutex>
#include <optional>

namespace libhvd {

class DeviceQueue : public DeviceState {
 public:
  // Returns the queue of the order. Makes it if there is none.
  static DeviceQueue& of(CallOrder& order, const CudaLibrary& cuda);

  explicit DeviceQueue(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~DeviceQueue() override;

  // Makes all later work on the stream run after all work in the queue. The stream is one of the
  // current device. `kind`: "allreduce"; `name` may be null.
  Result<void> begin(const Communicator& communicator, const char* kind, const char* name,
                     CudaStream stream);
  // Adds to the queue the work that the stream has now.
  Result<void> end(CudaStream stream);

  // Returns the oldest call that is not done; nullopt if it is none of this communicator's. Leaves
  // `device`, that of the communicator, the current one of this thread. Error: CUDA reports that
  // the GPU's work has failed.
  Result<std::optional<DeviceWait>> look(const Communicator& communicator, int device);

 private:
  struct Call {
    const Communicator* communicator = nullptr;
    DeviceWait shown = {};  // without `reached`
    CudaEventRef begun = nullptr;
    CudaEventRef done = nullptr;
    bool ended = false;  // `done` is recorded
  };

  CudaLibrary cuda_;
  std::mutex mutex_;  // guards what follows
  std::deque<Call> calls_;
  std::deque<Call> spare_;       // calls that are done, whose events are used again
  CudaEventRef last_ = nullptr;  // of the last call that has ended; null: the queue is empty
};

}  // namespace libhvd
