// What can be wrong with one rank's arguments, as text for its peers; "" when nothing is.
#pragma once

#include "collective/element.hpp"
#include "collective/reduce.hpp"
#include "hvd/hvd.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace libhvd {

// Counts stay below this in bytes, so that no sum or product of them overflows.
inline constexpr std::size_t kMostBytes = std::numeric_limits<std::int64_t>::max() / 4096;
inline constexpr std::size_t kMostElements = kMostBytes / 8;

inline bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

// Whether check_allreduce() would say "", for the small calls in which its texts show.
inline bool allreduce_is_sound(const void* input, const void* output, std::size_t count,
                               hvd_type type, hvd_op op) {
  const std::size_t element = element_size(type);
  return element != 0 && op_exists(op) && (type != HVD_BOOL || op != HVD_AVERAGE) &&
         count <= kMostElements && (count == 0 || (input != nullptr && output != nullptr)) &&
         (input == output || !overlap(input, count * element, output, count * element));
}

std::string check_allreduce(const void* input, const void* output, std::size_t count, hvd_type type,
                            hvd_op op);
std::string check_broadcast(const void* buffer, std::size_t count, hvd_type type, int root,
                            int size);
std::string check_allgather(const void* input, std::size_t rows, std::size_t row_size,
                            hvd_type type, const void* output, std::size_t output_rows);

std::string check_reducescatter(const void* input, std::size_t rows, std::size_t row_size,
                                hvd_type type, hvd_op op, const void* output, std::size_t own_rows);
// `splits`: rows for each rank; null: as many for each.
std::string check_alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                           std::size_t row_size, hvd_type type, const void* output,
                           std::size_t output_rows, int size);
std::string check_scale(const Scale& scale, hvd_type type);

}  // namespace libhvd
