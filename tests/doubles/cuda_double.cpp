// The functions of libcudart. cuda_double.hpp explains the double.
#include "cuda_double.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#define HVD_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace cuda_double;

thread_local int device = 0;
thread_local int last_error = kSuccess;
thread_local bool context_is_current = false;
thread_local int capture_mode = 0;  // cudaStreamCaptureModeGlobal

constexpr int kMostDevices = 64;
std::array<std::atomic<bool>, kMostDevices> contexts{};  // devices with a context in this process

int device_count() {
  const char* const text = std::getenv("HVD_DOUBLE_DEVICES");
  return text == nullptr ? 8 : std::atoi(text);
}

int answer(int status) {
  if (status != kSuccess) last_error = status;
  return status;
}

// Returns whether this call must fail (HVD_DOUBLE_CUDA_FAILS). Counting of its calls starts when
// the variable names the function.
bool must_fail(const char* function) {
  static std::atomic<int> calls{0};
  const char* const named = std::getenv("HVD_DOUBLE_CUDA_FAILS");
  const std::size_t length = std::strlen(function);
  if (named == nullptr || std::strncmp(named, function, length) != 0) return false;
  if (named[length] == '\0') return true;
  return named[length] == ':' && calls++ >= std::atoi(named + length + 1);
}

struct PointerAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
};

// Returns the double's own view of device memory. Host memory is returned unchanged.
std::byte* place_of(const void* pointer) {
  std::byte* const view = reach(pointer);
  return view != nullptr ? view : static_cast<std::byte*>(const_cast<void*>(pointer));
}

}  // namespace

namespace cuda_double {

int current_device() {
  return device;
}

int set_current_device(int other) {
  device = other;
  return kSuccess;
}

void use_context() {
  context_is_current = true;
  contexts[static_cast<std::size_t>(device)] = true;
}

bool has_current_context() {
  return context_is_current;
}

bool has_context(int of_device) {
  return contexts[static_cast<std::size_t>(of_device)];
}

}  // namespace cuda_double

HVD_EXPORT int cudaGetDeviceCount(int* count) {
  *count = device_count();
  return kSuccess;
}

HVD_EXPORT int cudaGetDevice(int* current) {
  *current = device;
  return kSuccess;
}

// As since CUDA 12, it creates the context of the device and makes it current.
HVD_EXPORT int cudaSetDevice(int number) {
  if (number < 0 || number >= device_count()) return answer(kInvalidDevice);
  device = number;
  use_context();
  return kSuccess;
}

HVD_EXPORT int cudaDeviceGetPCIBusId(char* text, int size, int number) {
  if (must_fail("cudaDeviceGetPCIBusId")) return answer(kUnknown);
  if (number < 0 || number >= device_count()) return answer(kInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", number + 1);
  return kSuccess;
}

HVD_EXPORT int cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  if (must_fail("cudaPointerGetAttributes")) return answer(kUnknown);
  void* const same = const_cast<void*>(pointer);
  const int on = device_of(pointer);
  if (on >= 0) {
    *attributes = {2, on, same, nullptr};
  } else if (is_pinned(pointer)) {
    *attributes = {1, device, same, same};
  } else {
    *attributes = {0, -2, nullptr, same};
  }
  return kSuccess;
}

HVD_EXPORT int cudaMalloc(void** memory, std::size_t bytes) {
  if (must_fail("cudaMalloc")) return answer(kMemoryAllocation);
  use_context();
  return answer(allocate(memory, bytes, device));
}

HVD_EXPORT int cudaFree(void* memory) {
  return answer(release(memory));
}

HVD_EXPORT int cudaMallocHost(void** memory, std::size_t bytes) {
  if (must_fail("cudaMallocHost")) return answer(kMemoryAllocation);
  const char* const most = std::getenv("HVD_DOUBLE_PINNED_BYTES");
  if (most != nullptr && bytes > std::strtoull(most, nullptr, 10)) return answer(kMemoryAllocation);
  use_context();
  return answer(allocate_pinned(memory, bytes));
}

HVD_EXPORT int cudaFreeHost(void* memory) {
  return answer(release_pinned(memory));
}

HVD_EXPORT int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int, void* stream) {
  if (must_fail("cudaMemcpyAsync")) return answer(kUnknown);
  return enqueue(stream, [=] { std::memcpy(place_of(to), place_of(from), bytes); });
}

HVD_EXPORT int cudaStreamCreateWithFlags(void** stream, unsigned) {
  use_context();
  return create_stream(stream);
}

HVD_EXPORT int cudaStreamDestroy(void* stream) {
  return destroy_stream(stream);
}

HVD_EXPORT int cudaStreamSynchronize(void* stream) {
  if (const char* const file = std::getenv("HVD_DOUBLE_SYNCHRONIZED"))
    std::ofstream(file, std::ios::app) << 'x';
  while (std::getenv("HVD_DOUBLE_SPINS") != nullptr && !is_idle(stream)) {
  }
  const int status = synchronize(stream);
  return answer(status);  // the last call would have no place on the stack
}

HVD_EXPORT int cudaStreamQuery(void* stream) {
  return is_idle(stream) ? kSuccess : kNotReady;
}

HVD_EXPORT int cudaStreamWaitEvent(void* stream, void* event, unsigned) {
  return wait_for(stream, event);
}

// Calls a function of the program in the order of the stream.
HVD_EXPORT int cudaLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  return enqueue(stream, [=] { function(argument); });
}

HVD_EXPORT int cudaEventCreateWithFlags(void** event, unsigned) {
  if (must_fail("cudaEventCreateWithFlags")) return answer(kUnknown);
  use_context();
  return create_event(event);
}

HVD_EXPORT int cudaEventRecord(void* event, void* stream) {
  return record(event, stream);
}

// Refuses threads in the global mode, as CUDA may while another thread captures a graph.
HVD_EXPORT int cudaEventQuery(void* event) {
  if (must_fail("cudaEventQuery")) return answer(kUnknown);
  if (std::getenv("HVD_DOUBLE_CAPTURES") != nullptr && capture_mode == 0) return answer(kUnsafe);
  return has_happened(event) ? kSuccess : kNotReady;
}

HVD_EXPORT int cudaEventDestroy(void* event) {
  return destroy_event(event);
}

HVD_EXPORT int cudaThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kSuccess;
}

HVD_EXPORT int cudaGetLastError() {
  const int error = last_error;
  last_error = kSuccess;
  return error;
}

HVD_EXPORT const char* cudaGetErrorString(int status) {
  switch (status) {
    case kSuccess:
      return "no error";
    case kInvalidValue:
      return "invalid argument";
    case kMemoryAllocation:
      return "out of memory";
    case kInvalidDevice:
      return "invalid device ordinal";
    case kNotReady:
      return "device not ready";
    default:
      return "unknown error";
  }
}
