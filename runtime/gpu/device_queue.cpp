#include "gpu/device_queue.hpp"

#include "common/clock.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace libhvd {
namespace {

// Of more calls than these only the first ones and the last one are known.
constexpr std::size_t kMostCalls = 64;

}  // namespace

DeviceQueue& DeviceQueue::of(CallOrder& order, const CudaLibrary& cuda) {
  auto& device_state = order.device_state();
  if (!device_state) device_state = std::make_unique<DeviceQueue>(cuda);
  return static_cast<DeviceQueue&>(*device_state);
}

DeviceQueue::~DeviceQueue() {
  for (const auto* calls : {&calls_, &spare_}) {
    for (const Call& call : *calls) {
      for (const CudaEventRef event : {call.begun, call.done}) {
        if (event != nullptr) cuda_.cudaEventDestroy(event);
      }
    }
  }
}

Result<void> DeviceQueue::begin(const Communicator& communicator, const char* kind,
                                const char* name, CudaStream stream) {
  const std::lock_guard lock(mutex_);
  if (last_ != nullptr)
    HVD_CHECK(cuda_.check(cuda_.cudaStreamWaitEvent(stream, last_, 0), "cudaStreamWaitEvent"));
  std::deque<Call>& source = calls_.size() == kMostCalls ? calls_ : spare_;
  Call call;
  if (!source.empty()) {
    call = std::move(source.back());
    source.pop_back();
  }
  call.communicator = &communicator;
  call.shown = {kind, name != nullptr ? name : "", monotonic_ns(), false};
  call.ended = false;
  calls_.push_back(std::move(call));
  for (CudaEventRef* const event : {&calls_.back().begun, &calls_.back().done}) {
    if (*event == nullptr)
      HVD_CHECK(cuda_.check(cuda_.cudaEventCreateWithFlags(event, kCudaEventDisableTiming),
                            "cudaEventCreateWithFlags"));
  }
  return cuda_.check(cuda_.cudaEventRecord(calls_.back().begun, stream), "cudaEventRecord");
}

Result<void> DeviceQueue::end(CudaStream stream) {
  const std::lock_guard lock(mutex_);
  Call& call = calls_.back();
  HVD_CHECK(cuda_.check(cuda_.cudaEventRecord(call.done, stream), "cudaEventRecord"));
  last_ = call.done;
  call.ended = true;
  return {};
}

Result<std::optional<DeviceWait>> DeviceQueue::look(const Communicator& communicator, int device) {
  const std::lock_guard lock(mutex_);
  if (calls_.empty()) return std::optional<DeviceWait>();
  cuda_.cudaSetDevice(device);
  while (!calls_.empty() && calls_.front().ended) {
    HVD_TRY(const bool done, cuda_.has_happened(calls_.front().done));
    if (!done) break;
    spare_.push_back(std::move(calls_.front()));
    calls_.pop_front();
  }
  if (calls_.empty() || calls_.front().communicator != &communicator)
    return std::optional<DeviceWait>();
  DeviceWait oldest = calls_.front().shown;
  HVD_TRY(oldest.reached, cuda_.has_happened(calls_.front().begun));
  return std::optional(std::move(oldest));
}

}  // namespace libhvd
