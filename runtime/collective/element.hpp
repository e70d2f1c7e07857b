// The types of elements, by the numbers of hvd.h.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>

namespace libhvd {

// Bytes of one element; 0 when `type` is not one of HVD_UINT8 ….
std::size_t element_size(hvd_type type);

// "float32"; "unknown" for what is none.
const char* type_name(hvd_type type);

// "sum"; "unknown" for what is none.
const char* op_name(hvd_op op);

// Whether the reduction exists (see hvd_op), for a valid type.
bool op_exists(hvd_op op);

}  // namespace libhvd
