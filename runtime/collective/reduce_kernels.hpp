// The kernels of reduce.hpp, one function for each instruction set. Each has a source file of its
// own, which is compiled for that set and includes reduce_kernel.hpp.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>

namespace libhvd {

// The stage of a reduction that a kernel runs: all of it, or one of the two parts of reduce.hpp.
enum class ReduceStage { whole, begin, end };

// The arguments of a kernel. There are `ranks` inputs; for the rest see reduce().
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
