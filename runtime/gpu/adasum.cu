// The arithmetic of Adasum on the device (collective/adasum.cpp explains it). Sums are in the order
// of blocks, so the same values give the same bits.
#include "adasum_slices.h"
#include "../collective/adasum_factors.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace libhvd::kernels {

inline __device__ double load(const AdasumSlices& slices, std::uint64_t i) {
  switch (slices.type) {
    case AdasumType::float16:
      return __half2float(static_cast<const __half*>(slices.values)[i]);
    case AdasumType::bfloat16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(slices.values)[i]);
    case AdasumType::float32:
      return static_cast<const float*>(slices.values)[i];
    default:
      return static_cast<const double*>(slices.values)[i];
  }
}

inline __device__ void store(AdasumType type, void* values, std::uint64_t i, double value) {
  switch (type) {
    case AdasumType::float16:
      static_cast<__half*>(values)[i] = __float2half_rn(static_cast<float>(value));
      return;
    case AdasumType::bfloat16:
      static_cast<__nv_bfloat16*>(values)[i] = __float2bfloat16_rn(static_cast<float>(value));
      return;
    case AdasumType::float32:
      static_cast<float*>(values)[i] = static_cast<float>(value);
      return;
    default:
      static_cast<double*>(values)[i] = value;
  }
}

// Returns the sum of the block's values, on thread 0.
inline __device__ double sum_of_block(double own) {
  __shared__ double sums[kAdasumThreads];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = kAdasumThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  return sums[0];
}

// Multiplies the slices of two ranks, a block of elements of each. Block `part` of product `pair`
// is blockIdx.x = pair * parts + part, and so is the place of its sum.
extern "C" __global__ void hvd_adasum_multiply(const AdasumSlices slices, std::uint64_t parts,
                                               double* partial_sums) {
  const std::uint64_t part = blockIdx.x % parts;
  std::uint64_t left = blockIdx.x / parts;
  const std::uint64_t ranks = slices.ranks;
  std::uint64_t a = 0;  // pairs are in the order (0, 0), (0, 1), …, (1, 1), …
  for (; left >= ranks - a; ++a) left -= ranks - a;
  const std::uint64_t b = a + left;
  const std::uint64_t begin = part * kAdasumPerBlock;
  const std::uint64_t end =
      begin + kAdasumPerBlock < slices.length ? begin + kAdasumPerBlock : slices.length;
  double sum = 0;
  for (std::uint64_t i = begin + threadIdx.x; i < end; i += kAdasumThreads)
    sum += load(slices, a * slices.length + i) * load(slices, b * slices.length + i);
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) partial_sums[blockIdx.x] = sum;
}

// Adds up the partial sums of product blockIdx.x.
extern "C" __global__ void hvd_adasum_add_up(const double* partial_sums, std::uint64_t parts,
                                             double* products) {
  double sum = 0;
  for (std::uint64_t i = threadIdx.x; i < parts; i += kAdasumThreads)
    sum += partial_sums[blockIdx.x * parts + i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) products[blockIdx.x] = sum;
}

// Finds the factors, with one thread.
extern "C" __global__ void hvd_adasum_factors(const double* products, std::uint64_t ranks,
                                              double scale, double* factors) {
  adasum_factors(products, ranks, factors);
  for (std::uint64_t rank = 0; rank < ranks; ++rank) factors[rank] *= scale;
}

// Adds the slices, each with its factor. The sum may be in the place of the first slice.
extern "C" __global__ void hvd_adasum_combine(const AdasumSlices slices, const double* factors,
                                              void* sum) {
  const std::uint64_t begin = blockIdx.x * kAdasumPerBlock;
  const std::uint64_t end =
      begin + kAdasumPerBlock < slices.length ? begin + kAdasumPerBlock : slices.length;
  for (std::uint64_t i = begin + threadIdx.x; i < end; i += kAdasumThreads) {
    double value = 0;
    for (std::int32_t rank = 0; rank < slices.ranks; ++rank)
      value += factors[rank] * load(slices, rank * slices.length + i);
    store(slices.type, sum, i, value);
  }
}

}  // namespace libhvd::kernels
