// The kernels of reduce.hpp, one function an instruction set. Each is its own source file, compiled
// for that set, around reduce_kernel.hpp.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>

namespace libhvd {

// `ranks` inputs; the rest as reduce().
struct ReduceJob {
  hvd_op op;
  hvd_type type;
  const void* const* inputs;
  std::size_t ranks;
  void* output;
  std::size_t count;
  double before;  // factors
  double after;
};

using ReduceKernel = void(const ReduceJob& job);

ReduceKernel reduce_plain;
#if defined(__x86_64__)
ReduceKernel reduce_avx2;    // with F16C
ReduceKernel reduce_avx512;  // F, BW, DQ and VL, with F16C
#endif

}  // namespace libhvd
