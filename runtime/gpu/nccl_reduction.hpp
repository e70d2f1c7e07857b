// Which reductions NCCL does as hvd.h promises them, and how they are asked of it.
#pragma once

#include "collective/reduce.hpp"
#include "gpu/nccl.hpp"
#include "hvd/hvd.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace libhvd {

// NCCL's type for a reduction; nothing for those that it has no arithmetic for: 16-bit integers and
// bool.
std::optional<NcclType> nccl_type(hvd_type type);

struct NcclReduction {
  NcclType type;
  NcclOp op;
  // Each input is multiplied by it before the sum, when it is given: one value of `type`.
  bool has_factor = false;
  std::uint64_t factor = 0;
};

// Nothing: NCCL cannot do it, and it goes through host memory. That is so for
//   types without arithmetic (nccl_type);
//   the average of integers, where NCCL's sum wraps before it is divided;
//   factors with an operation that is not a sum or an average;
//   factors that a 16-bit type cannot hold exactly, as NCCL takes them in the type of the data.
// Both factors become one, before the sum: the rounding may differ in the last bit.
std::optional<NcclReduction> find_nccl_reduction(hvd_type type, hvd_op op, const Scale& scale,
                                                 int size);

}  // namespace libhvd
