// The factors of Adasum, from the dot products of all ranks' tensors with each other. CUDA C++ and
// the host code share this header. Pure functions.
#pragma once

#include <cmath>
#include <cstddef>

#ifdef __CUDACC__
#define HVD_HOST_AND_DEVICE __host__ __device__
#else
#define HVD_HOST_AND_DEVICE
#endif

namespace libhvd {

// The number of dot products. Their matrix is symmetric, so half of it is kept.
HVD_HOST_AND_DEVICE constexpr std::size_t adasum_products(std::size_t ranks) {
  return ranks * (ranks + 1) / 2;
}

// Returns where the product of the tensors of ranks a and b is.
HVD_HOST_AND_DEVICE constexpr std::size_t adasum_product(std::size_t a, std::size_t b,
                                                         std::size_t ranks) {
  const std::size_t low = a < b ? a : b;
  const std::size_t high = a < b ? b : a;
  return low * ranks - low * (low + 1) / 2 + high;
}

// Returns the dot product of two sums, of `half` ranks each: from rank a on, and from rank b on.
HVD_HOST_AND_DEVICE inline double adasum_product_of_sums(const double* products,
                                                         const double* factors, std::size_t ranks,
                                                         std::size_t a, std::size_t b,
                                                         std::size_t half) {
  double sum = 0;
  for (std::size_t i = a; i < a + half; ++i) {
    for (std::size_t j = b; j < b + half; ++j)
      sum += factors[i] * factors[j] * products[adasum_product(i, j, ranks)];
  }
  return sum;
}

// Sets the factor of each rank's tensor in the result. `ranks` is a power of two.
HVD_HOST_AND_DEVICE inline void adasum_factors(const double* products, std::size_t ranks,
                                               double* factors) {
  for (std::size_t rank = 0; rank < ranks; ++rank) factors[rank] = 1;
  for (std::size_t half = 1; half < ranks; half *= 2) {
    for (std::size_t a = 0; a < ranks; a += 2 * half) {
      const std::size_t b = a + half;
      const auto product = [&](std::size_t one, std::size_t other) {
        return adasum_product_of_sums(products, factors, ranks, one, other, half);
      };
      const double a_squared = product(a, a);
      const double b_squared = product(b, b);
      // The dot product is at most this (Cauchy-Schwarz), except for rounding where the ranks'
      // tensors cancel each other out.
      const double most = a_squared > 0 && b_squared > 0 ? sqrt(a_squared * b_squared) : 0;
      const double exact = product(a, b);
      const double both = exact > most ? most : (exact < -most ? -most : exact);
      const double of_a = a_squared > 0 ? 1 - both / (2 * a_squared) : 1;
      const double of_b = b_squared > 0 ? 1 - both / (2 * b_squared) : 1;
      for (std::size_t i = 0; i < half; ++i) {
        factors[a + i] *= of_a;
        factors[b + i] *= of_b;
      }
    }
  }
}

}  // namespace libhvd
