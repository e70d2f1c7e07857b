// What the kernel of copy_batch.cu is given: shared between CUDA C++ and the host.
#pragma once

#include <cstddef>
#include <cstdint>

namespace libhvd {

struct DeviceCopy {
  void* to;
  const void* from;
  std::size_t bytes;
};

// One launch. It goes as a parameter of the kernel, which holds 4 KB on every GPU.
inline constexpr int kMostCopies = 160;
struct CopyBatch {
  DeviceCopy copies[kMostCopies];
  std::int32_t count;
};
static_assert(sizeof(CopyBatch) <= 4096);

// A block of so many threads copies so many bytes of a copy; grid.x of them for the longest copy,
// grid.y copies.
inline constexpr unsigned kCopyThreads = 256;
inline constexpr std::size_t kCopyBytesPerBlock = 16 * 1024;

}  // namespace libhvd
