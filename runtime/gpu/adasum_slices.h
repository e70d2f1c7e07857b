// The parameters of the kernels in adasum.cu. CUDA C++ and the host code share this header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace libhvd {

enum class AdasumType : std::int32_t { float16, bfloat16, float32, float64 };

// A slice of each rank's tensor, one after the other on the device.
struct AdasumSlices {
  const void* values;
  std::uint64_t length;  // of each, in elements
  std::int32_t ranks;
  AdasumType type;
};

inline constexpr unsigned kAdasumThreads = 256;
// Each block of threads multiplies or adds so many elements of a slice.
inline constexpr std::uint64_t kAdasumPerBlock = 16 * 1024;

// Returns the number of these blocks: at least 1, so that an empty slice has products too.
constexpr unsigned adasum_blocks(std::uint64_t length) {
  return length == 0 ? 1 : static_cast<unsigned>((length + kAdasumPerBlock - 1) / kAdasumPerBlock);
}

}  // namespace libhvd
