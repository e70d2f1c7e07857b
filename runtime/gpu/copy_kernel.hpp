// Many copies on the device as one launch, by our own kernel; through the CUDA driver API, opened
// at run time like the rest of CUDA.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "gpu/copy_batch.h"
#include "gpu/cuda_library.hpp"

#include <span>

namespace libhvd {

// Every function of the driver that we call, and its parameters (CUDA Driver API manual).
#define HVD_CUDA_DRIVER_FUNCTIONS(X)                                                              \
  X(cuModuleLoadData, (void** module, const void* image))                                         \
  X(cuModuleUnload, (void* module))                                                               \
  X(cuModuleGetFunction, (void** function, void* module, const char* name))                       \
  X(cuLaunchKernel, (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,           \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
                     CudaStream stream, void** parameters, void** extra))

class CopyKernel {
 public:
  // For the device that is current. Error (HVD_ERROR_UNSUPPORTED): it was not compiled, or not for
  // this GPU, or there is no driver. It is no failure: NCCL's groups do without.
  static Result<CopyKernel> load(const Environment& environment);
  CopyKernel(CopyKernel&& other) noexcept;
  CopyKernel& operator=(CopyKernel&&) = delete;
  ~CopyKernel();

  // Places do not overlap.
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
