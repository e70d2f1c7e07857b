// The types of elements and the reductions, by their numbers in hvd.h. Pure functions.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>

namespace libhvd {

// Returns the bytes of one element; 0 if `type` is not one of HVD_UINT8 ….
constexpr std::size_t element_size(hvd_type type) {
  switch (type) {
    case HVD_UINT8:
    case HVD_INT8:
    case HVD_BOOL:
      return 1;
    case HVD_UINT16:
    case HVD_INT16:
    case HVD_FLOAT16:
    case HVD_BFLOAT16:
      return 2;
    case HVD_INT32:
    case HVD_FLOAT32:
      return 4;
    case HVD_INT64:
    case HVD_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

constexpr bool is_floating_point(hvd_type type) {
  return type == HVD_FLOAT16 || type == HVD_BFLOAT16 || type == HVD_FLOAT32 || type == HVD_FLOAT64;
}

// Returns "float32" and so on; "unknown" for another number.
const char* type_name(hvd_type type);

// Returns "sum" and so on; "unknown" for another number.
const char* op_name(hvd_op op);

// Returns whether the reduction exists (see hvd_op).
constexpr bool op_exists(hvd_op op) {
  return op >= HVD_AVERAGE && op <= HVD_PRODUCT;
}

// Returns whether there is this reduction of elements of this type.
constexpr bool reduction_exists(hvd_type type, hvd_op op) {
  return element_size(type) != 0 && op_exists(op) && (type != HVD_BOOL || op != HVD_AVERAGE) &&
         (op != HVD_ADASUM || is_floating_point(type));
}

}  // namespace libhvd
