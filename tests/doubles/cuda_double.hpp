// A double of the CUDA runtime for machines without a GPU. It has the functions that libhvd and its
// tests call. It shows whether libhvd's calls have the right order and arguments, not how CUDA
// behaves.
//
//   HVD_DOUBLE_DEVICES       the number of devices (8)
//   HVD_DOUBLE_CUDA_FAILS    the function of that name returns cudaErrorUnknown (999); "NAME:N":
//                            after N successful calls
//   HVD_DOUBLE_CAPTURES      any value: another thread captures a graph, so cudaEventQuery refuses
//                            threads in the global capture mode
//   HVD_DOUBLE_PINNED_BYTES  the limit of one cudaMallocHost
//   HVD_DOUBLE_SYNCHRONIZED  a file that gets a byte for each cudaStreamSynchronize
//   HVD_DOUBLE_SPINS         any value: cudaStreamSynchronize uses a processor while it waits, as
//                            CUDA does by default
//
// Device memory is a file in memory that is mapped twice. The program's view has no access rights,
// so that a wrong access by the CPU crashes. The double's "kernels" use the other view. A stream is
// a thread that runs its operations one after another.
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

// Returns the double's own view of device memory, or null if the address is not device memory.
HVD_DOUBLE_API std::byte* reach(const void* device);
// Returns the device of the memory, or -1 if it is not device memory.
int device_of(const void* pointer);
bool is_pinned(const void* pointer);

int allocate(void** memory, std::size_t bytes, int device);
int release(void* memory);
int allocate_pinned(void** memory, std::size_t bytes);
int release_pinned(void* memory);

// An operation that NCCL's double puts on a stream. It may return early once `aborted` is set.
HVD_DOUBLE_API int enqueue(void* stream, std::function<void()> work);

// The current device of this thread.
HVD_DOUBLE_API int current_device();
HVD_DOUBLE_API int set_current_device(int device);
// Creates the context of the current device if it has none, and makes it current on this thread.
void use_context();
HVD_DOUBLE_API bool has_current_context();
// Returns whether the device has a context in this process.
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
