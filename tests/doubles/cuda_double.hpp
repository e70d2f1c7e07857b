// A double of the CUDA runtime, for machines without a GPU: what libhvd and its tests call of it.
// It shows whether our calls are ordered and reach what they should, not how CUDA does.
//
//   HVD_DOUBLE_DEVICES  how many devices there are (8)
//   HVD_DOUBLE_CUDA_FAILS  the function of that name returns cudaErrorUnknown (999); "NAME:N":
//                          its first N calls work
//   HVD_DOUBLE_CAPTURES    any value: another thread captures a graph, so cudaEventQuery refuses
//                          threads in the global capture mode
//   HVD_DOUBLE_PINNED_BYTES  the most that cudaMallocHost gives at a time
//   HVD_DOUBLE_SYNCHRONIZED  a file that gets a byte for each cudaStreamSynchronize
//
// Device memory is a file in memory, mapped twice: the program gets a view without any access, so
// that a stray access of the CPU crashes; the double's own "kernels" go through the other one.
// A stream is a thread that carries out one thing after another.
#pragma once

#include <cstddef>
#include <functional>

namespace cuda_double {

inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kMemoryAllocation = 2;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kNotReady = 600;
inline constexpr int kUnsafe = 900;  // cudaErrorStreamCaptureUnsupported
inline constexpr int kUnknown = 999;

#define HVD_DOUBLE_API __attribute__((visibility("default")))

// The double's own view of device memory; null: there is none at that address.
HVD_DOUBLE_API std::byte* reach(const void* device);
// The device that it is on; -1: it is not device memory.
int device_of(const void* pointer);
bool is_pinned(const void* pointer);

int allocate(void** memory, std::size_t bytes, int device);
int release(void* memory);
int allocate_pinned(void** memory, std::size_t bytes);
int release_pinned(void* memory);

// What NCCL's double puts on a stream. The work may return early once `aborted` is asked for.
HVD_DOUBLE_API int enqueue(void* stream, std::function<void()> work);

// Of this thread.
HVD_DOUBLE_API int current_device();
HVD_DOUBLE_API int set_current_device(int device);
// Makes the context of the current device, if there is none, and makes it current on this thread.
void use_context();
HVD_DOUBLE_API bool has_current_context();
// In this process.
HVD_DOUBLE_API bool has_context(int device);

int create_stream(void** stream);
int destroy_stream(void* stream);
int synchronize(void* stream);
bool is_idle(void* stream);
int create_event(void** event);
int destroy_event(void* event);
int record(void* event, void* stream);
int wait_for(void* stream, void* event);
bool has_happened(void* event);

}  // namespace cuda_double
