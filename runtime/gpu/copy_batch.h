// The parameters of the kernel in copy_batch.cu. CUDA C++ and the host code share this header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace libhvd {

struct DeviceCopy {
  void* to;
  const void* from;
  std::size_t bytes;
};

// The copies of one launch. It is a parameter of the kernel, and parameters may have 4 KB on every
// GPU.
inline constexpr int kMostCopies = 160;
struct CopyBatch {
  DeviceCopy copies[kMostCopies];
  std::int32_t count;
};
static_assert(sizeof(CopyBatch) <= 4096);

// Each block of threads copies kCopyBytesPerBlock of one copy. grid.x is the number of blocks for
// the longest copy, grid.y the number of copies.
inline constexpr unsigned kCopyThreads = 256;
inline constexpr std::size_t kCopyBytesPerBlock = 16 * 1024;

}  // namespace libhvd
