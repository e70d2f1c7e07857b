// Does many copies on the device in one launch, with libhvd's own kernel (copy_batch.cu). It uses
// the CUDA driver API, which is opened at run time like the rest of CUDA. One thread at a time.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "gpu/copy_batch.h"
#include "gpu/cuda_library.hpp"

#include <span>

namespace libhvd {

// Every function of the driver that libhvd calls, and its parameters (CUDA Driver API manual).
#define HVD_CUDA_DRIVER_FUNCTIONS(X)                                                              \
  X(cuModuleLoadData, (void** module, const void* image))                                         \
  X(cuModuleUnload, (void* module))                                                               \
  X(cuModuleGetFunction, (void** function, void* module, const char* name))                       \
  X(cuLaunchKernel, (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,           \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
                     CudaStream stream, void** parameters, void** extra))

class CopyKernel {
 public:
  // Loads the kernel for the current device. Error (HVD_ERROR_UNSUPPORTED): it was not compiled, or
  // not for this GPU, or there is no driver. Collectives work without it, with NCCL's groups.
  static Result<CopyKernel> load(const Environment& environment);
  CopyKernel(CopyKernel&& other) noexcept;
  CopyKernel& operator=(CopyKernel&&) = delete;
  ~CopyKernel();

  // Enqueues the copies, which must not overlap. Error: the driver has failed.
  Result<void> run(std::span<const DeviceCopy> copies, CudaStream stream) const;

 private:
  CopyKernel() = default;

#define HVD_CUDA_DRIVER_MEMBER(name, parameters) int(*name) parameters = nullptr;
  HVD_CUDA_DRIVER_FUNCTIONS(HVD_CUDA_DRIVER_MEMBER)
#undef HVD_CUDA_DRIVER_MEMBER
  void* module_ = nullptr;
  void* function_ = nullptr;
};

}  // namespace libhvd
