// The CUDA runtime, opened at run time: libhvd is built without it, and loads it only when a call
// says HVD_CUDA. Only what is used is declared, from the CUDA Runtime API manual; it is the same in
// CUDA 11 to 13. Any thread.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"

#include <cstddef>

namespace libhvd {

using CudaStatus = int;      // cudaError_t
using CudaStream = void*;    // cudaStream_t; null: the default stream
using CudaEventRef = void*;  // cudaEvent_t

inline constexpr CudaStatus kCudaSuccess = 0;
inline constexpr CudaStatus kCudaInvalidValue = 1;
inline constexpr CudaStatus kCudaUnloading = 4;  // cudaErrorCudartUnloading: the process exits
inline constexpr CudaStatus kCudaNotReady = 600;
inline constexpr int kCudaMemoryDevice = 2;   // enum cudaMemoryType
inline constexpr int kCudaMemoryManaged = 3;  // enum cudaMemoryType
inline constexpr int kCudaMemcpyDefault = 4;  // enum cudaMemcpyKind: by where the pointers point
inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;
inline constexpr int kCudaCaptureThreadLocal = 1;  // enum cudaStreamCaptureMode

// struct cudaPointerAttributes, with room for fields of later versions.
struct CudaPointer {
  int type = 0;
  int device = 0;
  void* device_pointer = nullptr;
  void* host_pointer = nullptr;
  std::byte later[128] = {};
};

// Every function that libhvd calls, and its parameters.
#define HVD_CUDA_FUNCTIONS(X)                                                                      \
  X(cudaGetDevice, (int* device))                                                                  \
  X(cudaSetDevice, (int device))                                                                   \
  X(cudaDeviceGetPCIBusId, (char* text, int size, int device))                                     \
  X(cudaPointerGetAttributes, (CudaPointer * attributes, const void* pointer))                     \
  X(cudaMalloc, (void** memory, std::size_t bytes))                                                \
  X(cudaFree, (void* memory))                                                                      \
  X(cudaMallocHost, (void** memory, std::size_t bytes))                                            \
  X(cudaFreeHost, (void* memory))                                                                  \
  X(cudaMemcpyAsync, (void* to, const void* from, std::size_t bytes, int kind, CudaStream stream)) \
  X(cudaStreamCreateWithFlags, (CudaStream * stream, unsigned flags))                              \
  X(cudaStreamDestroy, (CudaStream stream))                                                        \
  X(cudaStreamSynchronize, (CudaStream stream))                                                    \
  X(cudaStreamWaitEvent, (CudaStream stream, CudaEventRef event, unsigned flags))                  \
  X(cudaEventCreateWithFlags, (CudaEventRef * event, unsigned flags))                              \
  X(cudaEventRecord, (CudaEventRef event, CudaStream stream))                                      \
  X(cudaEventQuery, (CudaEventRef event))                                                          \
  X(cudaEventDestroy, (CudaEventRef event))                                                        \
  X(cudaThreadExchangeStreamCaptureMode, (int* mode))                                              \
  X(cudaGetLastError, ())

struct CudaLibrary {
#define HVD_CUDA_MEMBER(name, parameters) CudaStatus(*name) parameters = nullptr;
  HVD_CUDA_FUNCTIONS(HVD_CUDA_MEMBER)
#undef HVD_CUDA_MEMBER
  const char* (*cudaGetErrorString)(CudaStatus status) = nullptr;
  // Of the CUDA Driver API, see has_context(). Null: there is no driver that has it.
  CudaStatus (*cuDevicePrimaryCtxGetState)(int device, unsigned* flags, int* active) = nullptr;

  // Opens what HVD_CUDA_LIBRARY names, what the process has, or libcudart.so.13, .12, .11.0. Error
  // (HVD_ERROR_UNSUPPORTED): none can be opened, or it is too old.
  static Result<CudaLibrary> load(const Environment& environment);

  // Returns whether this process uses the device already. A context takes hundreds of megabytes of
  // its memory.
  bool has_context(int device) const;

  // Returns whether the GPU has reached the event. Error: the GPU's work has failed.
  Result<bool> has_happened(CudaEventRef event) const;

  // Checks a status. Error (HVD_ERROR_SYSTEM): it is not success; the message names `function`.
  Result<void> check(CudaStatus status, const char* function) const;
};

// Makes a device, with its context, the current one of this thread while it lives. Afterwards the
// device from before is current again, if this process uses it: since CUDA 12 cudaSetDevice makes a
// context, and a rank needs none on the GPU of another rank. Cannot fail: if CUDA refuses, the call
// that follows reports it.
class CurrentDevice {
 public:
  CurrentDevice(const CudaLibrary& cuda, int device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const CudaLibrary& cuda_;
  int before_ = -1;  // -1: nothing to restore
};

}  // namespace libhvd
