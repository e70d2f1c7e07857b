// libhvd's own CUDA kernels (kernels.cu), loaded on a device. It uses the CUDA driver API, which is
// opened at run time like the rest of CUDA. One thread at a time.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
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

// Blocks of threads: x * y of them.
struct KernelGrid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned threads = 1;  // of a block
};

class KernelModule {
 public:
  // Loads the kernels for the current device. Error (HVD_ERROR_UNSUPPORTED): they were not
  // compiled, or not for this GPU, or there is no driver.
  static Result<KernelModule> load(const Environment& environment);
  KernelModule(KernelModule&& other) noexcept;
  KernelModule& operator=(KernelModule&&) = delete;
  ~KernelModule();

  // Returns a kernel by its name. Error: there is none.
  Result<void*> find(const char* name) const;
  // Enqueues a kernel. `parameters` points to the values of its parameters. Error: the driver has
  // failed.
  Result<void> launch(void* kernel, const KernelGrid& grid, CudaStream stream,
                      std::span<void*> parameters) const;

 private:
  KernelModule() = default;

#define HVD_CUDA_DRIVER_MEMBER(name, parameters) int(*name) parameters = nullptr;
  HVD_CUDA_DRIVER_FUNCTIONS(HVD_CUDA_DRIVER_MEMBER)
#undef HVD_CUDA_DRIVER_MEMBER
  void* module_ = nullptr;
};

}  // namespace libhvd
