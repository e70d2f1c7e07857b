// The forms in which an allreduce sends floats to other hosts: 16-bit floats, or 8-bit integers
// with a scale for each block. Pure functions, any thread; they cannot fail.
//
// Where it applies: HostsAllreduce compresses each host's partial sum, and each result, so every
// element is rounded twice on its way. Sums are computed in float32. Within a host nothing is
// compressed.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace libhvd {

enum class Compression : std::int32_t {
  none = HVD_COMPRESSION_NONE,
  float16 = HVD_COMPRESSION_FLOAT16,
  bfloat16 = HVD_COMPRESSION_BFLOAT16,
  int8 = HVD_COMPRESSION_INT8
};

constexpr bool compression_exists(Compression compression) {
  return compression >= Compression::none && compression <= Compression::int8;
}

// Returns "float16" and so on; "unknown" for another number.
const char* compression_name(Compression compression);

// The elements that have a scale of their own in int8. The compressed form of a range that begins
// at a multiple of it is a part of the compressed form of the whole.
inline constexpr std::size_t kCompressedBlock = 256;

// Returns the bytes of so many compressed elements. Not for Compression::none.
std::size_t compressed_bytes(Compression compression, std::size_t count);

// Compresses floats. `to` must be aligned to 2 bytes.
//
// In int8 the largest magnitude of a block becomes 127. With residuals (int8 only; null: none) each
// value first gets its residual, which then becomes the error of its compressed form: error
// feedback (Karimireddy et al., arXiv:1901.09847). A block with an infinity or a NaN, as of a sum
// that overflowed, becomes NaN, and its residuals 0.
void compress(Compression compression, const float* values, float* residuals, std::size_t count,
              std::byte* to);

// Computes what compress() has made. `from` must be aligned to 2 bytes.
void decompress(Compression compression, const std::byte* from, std::size_t count, float* values);

// Returns the first element that is infinite, NaN, or beyond the range of float32. For floating
// point types. The values need not be aligned.
std::optional<std::size_t> find_not_finite(hvd_type type, const void* values, std::size_t count);

}  // namespace libhvd
