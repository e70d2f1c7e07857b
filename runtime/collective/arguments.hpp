// Checks the arguments of a collective, and makes a Call of them. Pure functions: whatever carries
// the data afterwards, the arguments are checked here.
//
// A wrong argument is not an error at once. It becomes the call's fault, a text that is sent to all
// ranks, so that all of them return the same error.
#pragma once

#include "collective/call.hpp"
#include "collective/element.hpp"
#include "collective/reduce.hpp"
#include "hvd/hvd.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace libhvd {

// The most bytes and elements of a buffer. Up to these no sum or product of sizes overflows.
inline constexpr std::size_t kMostBytes = std::numeric_limits<std::int64_t>::max() / 4096;
inline constexpr std::size_t kMostElements = kMostBytes / 8;

// Returns whether memory can hold that many rows. (No division: a small call would show the time.)
inline bool memory_holds(std::uint64_t rows, std::size_t row_bytes) {
  std::uint64_t bytes = 0;
  return !__builtin_mul_overflow(rows, row_bytes, &bytes) && bytes <= kMostBytes;
}

inline bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

// Each returns what is wrong with one rank's arguments; empty if they are sound.
Fault check_allreduce(const void* input, const void* output, std::size_t count, hvd_type type,
                      hvd_op op);
Fault check_broadcast(const void* buffer, std::size_t count, hvd_type type, int root, int size);
Fault check_allgather(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                      const void* output, std::size_t output_rows);
Fault check_reducescatter(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                          hvd_op op, const void* output, std::size_t own_rows);
// `splits`: rows for each rank; null: the same number for each.
Fault check_alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                     std::size_t row_size, hvd_type type, const void* output,
                     std::size_t output_rows, int size);
Fault check_adasum_ranks(int size);
Fault check_scale(const Scale& scale, hvd_type type);
// Reads the input only if it is in host memory.
Fault check_compression(Compression compression, const void* input, std::size_t count,
                        hvd_type type, hvd_op op, bool on_device);

// Each returns the call with these arguments. Its fault is what the options have, or else what the
// check finds.
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
