#include "gpu/adasum_kernels.hpp"

#include "collective/adasum_factors.h"
#include "collective/element.hpp"
#include "gpu/fusion_pieces.hpp"

namespace libhvd {
namespace {

AdasumType adasum_type(hvd_type type) {
  switch (type) {
    case HVD_FLOAT16:
      return AdasumType::float16;
    case HVD_BFLOAT16:
      return AdasumType::bfloat16;
    case HVD_FLOAT32:
      return AdasumType::float32;
    default:
      return AdasumType::float64;
  }
}

// The parts of the memory, in bytes, in their order.
struct WorkSizes {
  WorkSizes(std::uint64_t longest, std::size_t ranks, hvd_type type)
      : slices(aligned_piece(longest * ranks * element_size(type))),
        products(aligned_piece(adasum_products(ranks) * sizeof(double))),
        factors(aligned_piece(ranks * sizeof(double))),
        partial_sums(adasum_products(ranks) * adasum_blocks(longest) * sizeof(double)) {}

  std::size_t slices;
  std::size_t products;
  std::size_t factors;
  std::size_t partial_sums;
};

}  // namespace

std::size_t adasum_work_bytes(std::uint64_t longest, std::size_t ranks, hvd_type type) {
  const WorkSizes sizes(longest, ranks, type);
  return sizes.slices + sizes.products + sizes.factors + sizes.partial_sums;
}

AdasumWork place_adasum_work(std::byte* memory, std::uint64_t length, std::uint64_t longest,
                             std::size_t ranks, hvd_type type) {
  const WorkSizes sizes(longest, ranks, type);
  const auto doubles_at = [&](std::size_t begin) {
    return reinterpret_cast<double*>(memory + begin);
  };
  return {.slices = {memory, length, static_cast<std::int32_t>(ranks), adasum_type(type)},
          .products = doubles_at(sizes.slices),
          .factors = doubles_at(sizes.slices + sizes.products),
          .partial_sums = doubles_at(sizes.slices + sizes.products + sizes.factors)};
}

Result<AdasumKernels> AdasumKernels::find(const KernelModule& module) {
  AdasumKernels kernels(module);
  HVD_TRY(kernels.multiply_, module.find("hvd_adasum_multiply"));
  HVD_TRY(kernels.add_up_, module.find("hvd_adasum_add_up"));
  HVD_TRY(kernels.factors_, module.find("hvd_adasum_factors"));
  HVD_TRY(kernels.combine_, module.find("hvd_adasum_combine"));
  return kernels;
}

Result<void> AdasumKernels::multiply(const AdasumWork& work, CudaStream stream) const {
  AdasumSlices slices = work.slices;
  std::uint64_t parts = adasum_blocks(slices.length);
  double* partial_sums = work.partial_sums;
  double* products = work.products;
  const auto count = static_cast<unsigned>(adasum_products(static_cast<std::size_t>(slices.ranks)));
  void* of_multiply[] = {&slices, &parts, &partial_sums};
  HVD_CHECK(module_->launch(multiply_,
                            {.x = count * static_cast<unsigned>(parts), .threads = kAdasumThreads},
                            stream, of_multiply));
  void* of_add_up[] = {&partial_sums, &parts, &products};
  return module_->launch(add_up_, {.x = count, .threads = kAdasumThreads}, stream, of_add_up);
}

Result<void> AdasumKernels::combine(const AdasumWork& work, double scale, CudaStream stream) const {
  AdasumSlices slices = work.slices;
  auto ranks = static_cast<std::uint64_t>(slices.ranks);
  double* products = work.products;
  double* factors = work.factors;
  void* of_factors[] = {&products, &ranks, &scale, &factors};
  HVD_CHECK(module_->launch(factors_, {}, stream, of_factors));
  void* sum = const_cast<void*>(slices.values);
  void* of_combine[] = {&slices, &factors, &sum};
  return module_->launch(combine_, {.x = adasum_blocks(slices.length), .threads = kAdasumThreads},
                         stream, of_combine);
}

}  // namespace libhvd
