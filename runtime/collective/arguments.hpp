// What can be wrong with one rank's arguments, as text for its peers; "" when nothing is.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>
#include <string>

namespace libhvd {

std::string check_allreduce(const void* input, const void* output, std::size_t count, hvd_type type,
                            hvd_op op);
std::string check_broadcast(const void* buffer, std::size_t count, hvd_type type, int root,
                            int size);
std::string check_allgather(const void* input, std::size_t rows, std::size_t row_size,
                            hvd_type type, const void* output, std::size_t output_rows);

}  // namespace libhvd
