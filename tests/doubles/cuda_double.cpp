// The functions of libcudart, see cuda_double.hpp.
#include "cuda_double.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define HVD_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace cuda_double;

thread_local int device = 0;
thread_local int last_error = kSuccess;

int device_count() {
  const char* const text = std::getenv("HVD_DOUBLE_DEVICES");
  return text == nullptr ? 8 : std::atoi(text);
}

int answer(int status) {
  if (status != kSuccess) last_error = status;
  return status;
}

// Calls count from when the variable names their function.
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

// Device memory through the double's own view, host memory as it is.
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

}  // namespace cuda_double

HVD_EXPORT int cudaGetDeviceCount(int* count) {
  *count = device_count();
  return kSuccess;
}

HVD_EXPORT int cudaGetDevice(int* current) {
  *current = device;
  return kSuccess;
}

HVD_EXPORT int cudaSetDevice(int number) {
  if (number < 0 || number >= device_count()) return answer(kInvalidDevice);
  device = number;
  return kSuccess;
}

HVD_EXPORT int cudaDeviceGetPCIBusId(char* text, int size, int number) {
  if (must_fail("cudaDeviceGetPCIBusId")) return answer(kUnknown);
  if (number < 0 || number >= device_count()) return answer(kInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", number + 1);
  return kSuccess;
}

HVD_EXPORT int cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
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
  return answer(allocate(memory, bytes, device));
}

HVD_EXPORT int cudaFree(void* memory) {
  return answer(release(memory));
}

HVD_EXPORT int cudaMallocHost(void** memory, std::size_t bytes) {
  if (must_fail("cudaMallocHost")) return answer(kMemoryAllocation);
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
  return create_stream(stream);
}

HVD_EXPORT int cudaStreamDestroy(void* stream) {
  return destroy_stream(stream);
}

HVD_EXPORT int cudaStreamSynchronize(void* stream) {
  return synchronize(stream);
}

HVD_EXPORT int cudaStreamQuery(void* stream) {
  return is_idle(stream) ? kSuccess : kNotReady;
}

HVD_EXPORT int cudaStreamWaitEvent(void* stream, void* event, unsigned) {
  return wait_for(stream, event);
}

// A function of the program, in order with the stream.
HVD_EXPORT int cudaLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  return enqueue(stream, [=] { function(argument); });
}

HVD_EXPORT int cudaEventCreateWithFlags(void** event, unsigned) {
  if (must_fail("cudaEventCreateWithFlags")) return answer(kUnknown);
  return create_event(event);
}

HVD_EXPORT int cudaEventRecord(void* event, void* stream) {
  return record(event, stream);
}

HVD_EXPORT int cudaEventQuery(void* event) {
  return has_happened(event) ? kSuccess : kNotReady;
}

HVD_EXPORT int cudaEventDestroy(void* event) {
  return destroy_event(event);
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
