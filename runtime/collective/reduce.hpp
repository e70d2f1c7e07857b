// The arithmetic of allreduce: one output from one input a rank.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>
#include <span>

namespace libhvd {

// output[i] = op over r, in ascending order, of inputs[r][i], for `count` elements, with the rules
// of hvd_op. What an element becomes depends on its inputs only, not on where a slice begins. The
// type and op are valid together (no average of bool). An input may be the output; otherwise they
// lie apart. All are aligned to the element.
void reduce(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* output,
            std::size_t count);

}  // namespace libhvd
