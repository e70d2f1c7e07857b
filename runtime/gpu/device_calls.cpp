#include "gpu/device_calls.hpp"

#include <memory>
#include <utility>

namespace libhvd {

Result<std::shared_ptr<BackgroundStream>> BackgroundStream::create(const Environment& environment) {
  HVD_TRY(const CudaLibrary cuda, CudaLibrary::load(environment));
  int device = 0;
  HVD_CHECK(cuda.check(cuda.cudaGetDevice(&device), "cudaGetDevice"));
  std::shared_ptr<BackgroundStream> background(new BackgroundStream(cuda, device));
  HVD_CHECK(cuda.check(cuda.cudaStreamCreateWithFlags(&background->stream_, kCudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags"));
  return background;
}

BackgroundStream::~BackgroundStream() {
  if (stream_ != nullptr) cuda_.cudaStreamDestroy(stream_);
}

DeviceCall::~DeviceCall() {
  if (ready_ != nullptr) background_->cuda().cudaEventDestroy(ready_);
  if (done_ != nullptr) background_->cuda().cudaEventDestroy(done_);
}

Result<void> DeviceCall::record(CudaStream stream) {
  const CudaLibrary& cuda = background_->cuda();
  // An event is for streams of the device on which it was made.
  const CurrentDevice current(cuda, background_->device());
  stream_ = stream;
  HVD_CHECK(cuda.check(cuda.cudaEventCreateWithFlags(&ready_, kCudaEventDisableTiming),
                       "cudaEventCreateWithFlags"));
  HVD_CHECK(cuda.check(cuda.cudaEventCreateWithFlags(&done_, kCudaEventDisableTiming),
                       "cudaEventCreateWithFlags"));
  return cuda.check(cuda.cudaEventRecord(ready_, stream), "cudaEventRecord");
}

Result<void> DeviceCall::run(std::span<DeviceCall* const> calls, const CallOptions& options,
                             const std::function<Result<void>(const CallOptions& options)>& body) {
  const BackgroundStream& background = *calls.front()->background_;
  const CudaLibrary& cuda = background.cuda();
  const CurrentDevice current(cuda, background.device());
  CallOptions on_stream = options;
  on_stream.place.stream = background.stream();
  for (const DeviceCall* call : calls) {
    const Result<void> waits = cuda.check(
        cuda.cudaStreamWaitEvent(background.stream(), call->ready_, 0), "cudaStreamWaitEvent");
    if (!waits.ok() && on_stream.fault.empty()) on_stream.fault = waits.error().message;
    const Sample& sample = call->sample_;
    if (sample.bytes > 0 && waits.ok())  // no error of the call: only a warning needs it
      static_cast<void>(cuda.check(cuda.cudaMemcpyAsync(sample.to, sample.from, sample.bytes,
                                                        kCudaMemcpyDefault, background.stream()),
                                   "cudaMemcpyAsync"));
  }
  Result<void> outcome = body(on_stream);
  for (const DeviceCall* call : calls) {
    Result<void> recorded =
        cuda.check(cuda.cudaEventRecord(call->done_, background.stream()), "cudaEventRecord");
    if (outcome.ok()) outcome = std::move(recorded);
  }
  return outcome;
}

std::byte* DeviceCall::sample_memory(std::size_t bytes) const {
  static std::byte* memory = nullptr;
  static std::size_t size = 0;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (memory != nullptr) return bytes <= size ? memory : nullptr;
  const CudaLibrary& cuda = background_->cuda();
  const CurrentDevice current(cuda, background_->device());
  void* made = nullptr;
  if (!cuda.check(cuda.cudaMallocHost(&made, bytes), "cudaMallocHost").ok()) return nullptr;
  memory = static_cast<std::byte*>(made);
  size = bytes;
  return memory;
}

bool DeviceCall::has_happened() const {
  const Result<bool> happened = background_->cuda().has_happened(done_);
  return happened.ok() && *happened;
}

Result<void> DeviceCall::finish() {
  const CudaLibrary& cuda = background_->cuda();
  const CurrentDevice current(cuda, background_->device());
  return cuda.check(cuda.cudaStreamWaitEvent(stream_, done_, 0), "cudaStreamWaitEvent");
}

Result<std::shared_ptr<DeviceCall>> DeviceCalls::begin(const BufferLocation& place,
                                                       std::int32_t process_set) {
  std::shared_ptr<BackgroundStream> background;
  {
    const std::lock_guard lock(mutex_);
    auto& stream = streams_[process_set];
    if (!stream) {
      HVD_TRY(stream, BackgroundStream::create(process_environment()));
    }
    background = stream;
  }
  auto call = std::make_shared<DeviceCall>(std::move(background));
  HVD_CHECK(call->record(place.stream));
  return call;
}

void DeviceCalls::keep(std::int64_t handle, std::shared_ptr<DeviceCall> call) {
  const std::lock_guard lock(mutex_);
  calls_.emplace(handle, std::move(call));
}

Result<void> DeviceCalls::finish(std::int64_t handle, const Result<void>& outcome) {
  std::shared_ptr<DeviceCall> call;
  {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(handle);
    if (found == calls_.end()) return outcome;
    call = std::move(found->second);
    calls_.erase(found);
  }
  Result<void> ordered = call->finish();
  return outcome.ok() ? ordered : outcome;
}

void DeviceCalls::forget(std::int32_t process_set) {
  const std::lock_guard lock(mutex_);
  streams_.erase(process_set);
}

}  // namespace libhvd
