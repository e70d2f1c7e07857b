// Collectives on device memory in the background: how they are ordered with the caller's stream.
//
// At submission an event is recorded on the caller's stream. The engine's thread runs the
// collective on a stream of the library, one for each process set. That stream first waits for the
// event, and records another one after the collective. hvd_wait makes the caller's stream wait for
// that one. The CPU waits for neither. Error: CUDA cannot be opened or has failed.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "collective/call.hpp"
#include "gpu/cuda_library.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

namespace libhvd {

// Owns a stream of the library.
class BackgroundStream {
 public:
  // Makes a stream on the current device.
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

// One submitted collective. The engine's thread runs it, the caller's thread records and finishes
// it; the engine synchronises the two.
class DeviceCall {
 public:
  explicit DeviceCall(std::shared_ptr<BackgroundStream> background)
      : background_(std::move(background)) {}
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  // Makes the collective run after all work that `stream` has so far. On the caller's thread.
  Result<void> record(CudaStream stream);
  // Makes run() first copy `bytes` bytes from the device to sample_memory(). On the engine's
  // thread.
  void sample(const void* from, std::byte* to, std::size_t bytes) { sample_ = {from, to, bytes}; }
  // Returns page-locked memory of this process, `bytes` long. It is as long as the first call asked
  // for, and never freed, because copies to it may be on their way. Null: it is shorter.
  std::byte* sample_memory(std::size_t bytes) const;
  // Returns whether the GPU has done what run() has enqueued; false if CUDA reports an error.
  bool has_happened() const;
  // Runs one or several on the library's stream; `body` runs them as one collective. On the
  // engine's thread.
  static Result<void> run(std::span<DeviceCall* const> calls, const CallOptions& options,
                          const std::function<Result<void>(const CallOptions& options)>& body);
  // Makes all later work on the caller's stream run after the collective. Call it after run() on
  // the caller's thread, also if it failed: work on its way may still read the buffers.
  Result<void> finish();

  int device() const { return background_->device(); }

 private:
  struct Sample {
    const void* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;  // 0: none is wanted
  };

  std::shared_ptr<BackgroundStream> background_;
  Sample sample_;
  CudaStream stream_ = nullptr;  // the caller's
  CudaEventRef ready_ = nullptr;
  CudaEventRef done_ = nullptr;
};

// The submitted collectives of a session. Any thread.
class DeviceCalls {
 public:
  // Makes a collective, ordered after the work on the stream in `place`.
  Result<std::shared_ptr<DeviceCall>> begin(const BufferLocation& place, std::int32_t process_set);
  // Keeps it until finish().
  void keep(std::int64_t handle, std::shared_ptr<DeviceCall> call);
  // Finishes the collective of a handle. Call it when the engine is done with the handle. Returns
  // `outcome`, its result in the engine, or else the error of finishing. Other handles are ignored.
  Result<void> finish(std::int64_t handle, const Result<void>& outcome);
  // Drops the stream of a set to which nothing more is submitted.
  void forget(std::int32_t process_set);

 private:
  std::mutex mutex_;
  std::unordered_map<std::int32_t, std::shared_ptr<BackgroundStream>> streams_;  // by process set
  std::unordered_map<std::int64_t, std::shared_ptr<DeviceCall>> calls_;
};

}  // namespace libhvd
