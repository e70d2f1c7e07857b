// What a rank says of each collective that it calls, with what is wrong with its arguments
// (arguments.hpp), wherever the data then goes.
#pragma once

#include "collective/call.hpp"

#include <cstddef>

#include <hvd/hvd.h>

namespace libhvd {

Call allreduce_call(const void* input, const void* output, std::size_t count, hvd_type type,
                    hvd_op op, const CallOptions& options);
Call broadcast_call(const void* buffer, std::size_t count, hvd_type type, int root, int size,
                    const CallOptions& options);
Call allgather_call(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                    const void* output, std::size_t output_rows, const CallOptions& options);
// `own_rows`: this rank's share of the result.
Call reducescatter_call(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                        hvd_op op, const void* output, std::size_t own_rows,
                        const CallOptions& options);
Call alltoall_call(const void* input, const std::size_t* splits, std::size_t rows,
                   std::size_t row_size, hvd_type type, const void* output, std::size_t output_rows,
                   int size, const CallOptions& options);

}  // namespace libhvd
