// Adasum's arithmetic on slices of all ranks' tensors in device memory (adasum.cu). One thread at a
// time.
#pragma once

#include "base/error.hpp"
#include "gpu/adasum_slices.h"
#include "gpu/kernel_module.hpp"
#include "hvd/hvd.h"

#include <cstddef>

namespace libhvd {

// Where a call's slices and numbers are in device memory.
struct AdasumWork {
  AdasumSlices slices{};
  double* products = nullptr;      // adasum_products(ranks)
  double* factors = nullptr;       // one a rank
  double* partial_sums = nullptr;  // adasum_blocks(slices.length) a product
};

// Returns how many bytes that takes. `longest`: the elements of the longest slice of any rank.
std::size_t adasum_work_bytes(std::uint64_t longest, std::size_t ranks, hvd_type type);
// Returns the places in such memory, which begins at `memory`.
AdasumWork place_adasum_work(std::byte* memory, std::uint64_t length, std::uint64_t longest,
                             std::size_t ranks, hvd_type type);

class AdasumKernels {
 public:
  // `module` must outlive it. Error: the module lacks one of the kernels.
  static Result<AdasumKernels> find(const KernelModule& module);

  // Each enqueues kernels. Error: the driver has failed.
  // Computes the dot products of this rank's slices with each other.
  Result<void> multiply(const AdasumWork& work, CudaStream stream) const;
  // Adds the slices with the factors that follow from the products of all ranks, times `scale`. The
  // sum is in the place of the first slice.
  Result<void> combine(const AdasumWork& work, double scale, CudaStream stream) const;

 private:
  explicit AdasumKernels(const KernelModule& module) : module_(&module) {}

  const KernelModule* module_;
  void* multiply_ = nullptr;
  void* add_up_ = nullptr;
  void* factors_ = nullptr;
  void* combine_ = nullptr;
};

}  // namespace libhvd
