// Which reductions NCCL does as hvd.h promises, and with which type, operation and factor. Pure
// functions.
#pragma once

#include "collective/reduce.hpp"
#include "gpu/nccl_library.hpp"
#include "hvd/hvd.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace libhvd {

// Returns NCCL's type for a reduction; nullopt for types without arithmetic in NCCL: 16-bit
// integers and bool.
std::optional<NcclType> nccl_type(hvd_type type);

struct NcclReduction {
  NcclType type;
  NcclOp op;
  // If given, each input is multiplied by it before the sum. One value of `type`.
  bool has_factor = false;
  std::uint64_t factor = 0;
};

// Returns how NCCL does the reduction; nullopt if it cannot, and it must go through host memory.
// NCCL cannot do
//   types without arithmetic (nccl_type);
//   the average of integers, where NCCL's sum wraps before it is divided;
//   factors with an operation that is not a sum or an average;
//   factors that a 16-bit type cannot hold exactly, because NCCL takes them in the type of the
//   data.
// The factors before and after become one before the sum, so the rounding may differ in the last
// bit.
std::optional<NcclReduction> find_nccl_reduction(hvd_type type, hvd_op op, const Scale& scale,
                                                 int size);

}  // namespace libhvd
