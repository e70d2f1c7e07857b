// The kernels of reduce.hpp, one function an instruction set. Each is its own source file, compiled
// for that set, around reduce_kernel.hpp.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>

namespace libhvd {

// What of a reduction a kernel does: all of it, or one of the two parts of reduce.hpp.
enum class ReduceStage { whole, begin, end };

// `ranks` inputs; the rest as reduce() or the part of it.
struct ReduceJob {
  ReduceStage stage;
  hvd_op op;
  hvd_type type;
  const void* const* inputs;
  std::size_t ranks;
  void* output;
  std::size_t count;
  double before;  // factors
  double after;
  std::size_t divisor;  // of an average
};

using ReduceKernel = void(const ReduceJob& job);

ReduceKernel reduce_plain;
#if defined(__x86_64__)
ReduceKernel reduce_avx2;    // with F16C
ReduceKernel reduce_avx512;  // F, BW, DQ and VL, with F16C
#endif

}  // namespace libhvd
