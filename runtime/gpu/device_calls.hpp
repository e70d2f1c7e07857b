// The order of NCCL's work on this rank's GPU.
//
// Work that was put on two streams may run at the same time or in either order. NCCL's kernels then
// take the GPU's processors from each other while they wait for their peers, for ever where the
// peers' GPUs have chosen otherwise (NCCL User Guide, "Using multiple NCCL communicators
// concurrently"). So the work of each call waits for that of the call before, on whatever stream.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "collective/call_order.hpp"
#include "collective/communicator.hpp"
#include "gpu/cuda_library.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

namespace libhvd {

// Used by the call whose turn it is.
class DeviceQueue : public DeviceState {
 public:
  // The order's own, made when there is none.
  static DeviceQueue& of(CallOrder& order, const CudaLibrary& cuda);

  explicit DeviceQueue(const CudaLibrary& cuda) : cuda_(cuda) {}
  ~DeviceQueue() override;

  // What is put on the stream from here on runs after all that is in the queue.
  Result<void> come_last(CudaStream stream);
  // What the stream has now is in the queue.
  Result<void> mark(CudaStream stream);

 private:
  CudaLibrary cuda_;
  CudaEventRef last_ = nullptr;  // null: nothing is in it
};

// Collectives on device memory in the background: how they are ordered with the caller's stream.
//
// At submission an event is recorded on the caller's stream. The engine's thread carries the
// collective out on a stream of the library's own, one for each process set, which first waits for
// that event, and records another one behind it, for which hvd_wait makes the caller's stream wait.
// The CPU waits for neither.

// A stream of the library's own.
class BackgroundStream {
 public:
  // On the device that is current.
  static Result<std::shared_ptr<BackgroundStream>> create(const Environment& environment);
  ~BackgroundStream();
  BackgroundStream(const BackgroundStream&) = delete;
  BackgroundStream& operator=(const BackgroundStream&) = delete;

  const CudaLibrary& cuda() const { return cuda_; }
  int device() const { return device_; }
  CudaStream stream() const { return stream_; }

 private:
  BackgroundStream(const CudaLibrary& cuda, int device) : cuda_(cuda), device_(device) {}

  CudaLibrary cuda_;
  int device_;
  CudaStream stream_ = nullptr;
};

// One collective that was submitted. The engine's thread runs it, the caller's finishes it; the
// engine stands between the two.
class DeviceCall {
 public:
  explicit DeviceCall(std::shared_ptr<BackgroundStream> background)
      : background_(std::move(background)) {}
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  // On the caller's thread: everything that `stream` has so far comes before.
  Result<void> record(CudaStream stream);
  // Carries out one or several, which body does as one collective, on the library's stream.
  static Result<void> run(std::span<DeviceCall* const> calls, const CallOptions& options,
                          const std::function<Result<void>(const CallOptions& options)>& body);
  // On the caller's thread, once it has run: everything that the caller's stream gets later comes
  // after. Also when it has failed: what it has on the way may still read the buffers.
  Result<void> finish();

  int device() const { return background_->device(); }

 private:
  std::shared_ptr<BackgroundStream> background_;
  CudaStream stream_ = nullptr;  // the caller's
  CudaEventRef ready_ = nullptr;
  CudaEventRef done_ = nullptr;
};

// Those of a session. Any thread.
class DeviceCalls {
 public:
  // Error: CUDA cannot be opened or has failed.
  Result<std::shared_ptr<DeviceCall>> begin(const Place& place, std::int32_t process_set);
  void keep(std::int64_t handle, std::shared_ptr<DeviceCall> call);
  // When the engine is done with the handle; `outcome` is how it went. Nothing happens to handles
  // that were not kept.
  Result<void> finish(std::int64_t handle, const Result<void>& outcome);
  // Nothing more is submitted to this set.
  void forget(std::int32_t process_set);

 private:
  std::mutex mutex_;
  std::unordered_map<std::int32_t, std::shared_ptr<BackgroundStream>> streams_;  // by process set
  std::unordered_map<std::int64_t, std::shared_ptr<DeviceCall>> calls_;
};

}  // namespace libhvd
