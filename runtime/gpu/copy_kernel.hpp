// Does many copies on the device in one launch (copy_batch.cu). One thread at a time.
#pragma once

#include "base/error.hpp"
#include "gpu/copy_batch.h"
#include "gpu/kernel_module.hpp"

#include <span>

namespace libhvd {

class CopyKernel {
 public:
  // `module` must outlive it. Error: the module has no such kernel.
  static Result<CopyKernel> find(const KernelModule& module);

  // Enqueues the copies, which must not overlap. Error: the driver has failed.
  Result<void> run(std::span<const DeviceCopy> copies, CudaStream stream) const;

 private:
  CopyKernel(const KernelModule& module, void* kernel) : module_(&module), kernel_(kernel) {}

  const KernelModule* module_;
  void* kernel_;
};

}  // namespace libhvd
