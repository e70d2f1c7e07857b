// Libraries that the runtime is built without, and opens where a program uses a GPU.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "common/shared_library.hpp"

#include <cstddef>
#include <span>

namespace libhvd {

// The library that `variable` names, when it is set. Else one that this process already has, as two
// of them in one process would each have their own state; else the first of `sonames`, newest
// first, that can be opened. It is never closed: its threads do not survive that. Error
// (HVD_ERROR_UNSUPPORTED): none can be opened, and why.
Result<SharedLibrary> open_library(const Environment& environment, const char* variable,
                                   std::span<const char* const> sonames);

// HVD_ERROR_UNSUPPORTED: an open library has no such function, it is too old.
Error lacks_function(const char* name);

// The CUDA runtime, opened at run time: libhvd is built without it, and loads it only when a call
// says HVD_CUDA. Declared is what is used, by the CUDA Runtime API manual; what is used has been
// the same from CUDA 11 to 13.

using CudaStatus = int;      // cudaError_t
using CudaStream = void*;    // cudaStream_t; null: the default stream
using CudaEventRef = void*;  // cudaEvent_t

inline constexpr CudaStatus kCudaSuccess = 0;
inline constexpr int kCudaMemoryDevice = 2;   // enum cudaMemoryType
inline constexpr int kCudaMemoryManaged = 3;  // the same
inline constexpr int kCudaMemcpyDefault = 4;  // enum cudaMemcpyKind: by where the pointers point
inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;

// struct cudaPointerAttributes, and room for what versions have added to it.
struct CudaPointer {
  int type = 0;
  int device = 0;
  void* device_pointer = nullptr;
  void* host_pointer = nullptr;
  std::byte later[128] = {};
};

// Every function that we call, and its parameters.
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
  X(cudaEventDestroy, (CudaEventRef event))                                                        \
  X(cudaGetLastError, ())

struct CudaLibrary {
#define HVD_CUDA_MEMBER(name, parameters) CudaStatus(*name) parameters = nullptr;
  HVD_CUDA_FUNCTIONS(HVD_CUDA_MEMBER)
#undef HVD_CUDA_MEMBER
  const char* (*cudaGetErrorString)(CudaStatus status) = nullptr;

  // HVD_CUDA_LIBRARY, what the process has, or libcudart.so.13, .12, .11.0. HVD_ERROR_UNSUPPORTED:
  // there is none.
  static Result<CudaLibrary> load(const Environment& environment);

  // Success, or an Error (HVD_ERROR_SYSTEM) that names the function.
  Result<void> check(CudaStatus status, const char* function) const;
};

// Makes a device the current one of this thread while it lives.
class CurrentDevice {
 public:
  CurrentDevice(const CudaLibrary& cuda, int device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const CudaLibrary& cuda_;
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace libhvd
