// Does many copies from device to device in one launch, because launches are the cost of small
// tensors.
#include "copy_batch.h"

#include <cstdint>

using libhvd::CopyBatch;
using libhvd::DeviceCopy;

namespace {

template <class Word>
__device__ void copy_words(void* to, const void* from, std::size_t bytes) {
  auto* const target = static_cast<Word*>(to);
  const auto* const source = static_cast<const Word*>(from);
  const std::size_t words = bytes / sizeof(Word);
  for (std::size_t i = threadIdx.x; i < words; i += blockDim.x) target[i] = source[i];
}

}  // namespace

extern "C" __global__ void hvd_copy_batch(const __grid_constant__ CopyBatch batch) {
  const DeviceCopy copy = batch.copies[blockIdx.y];
  const std::size_t begin = blockIdx.x * libhvd::kCopyBytesPerBlock;
  if (begin >= copy.bytes) return;
  const std::size_t left = copy.bytes - begin;
  const std::size_t bytes = left < libhvd::kCopyBytesPerBlock ? left : libhvd::kCopyBytesPerBlock;
  char* const to = static_cast<char*>(copy.to) + begin;
  const char* const from = static_cast<const char*>(copy.from) + begin;
  const auto alignment =
      (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 16;
  std::size_t done = 0;
  if (alignment == 0) {
    done = bytes / 16 * 16;
    copy_words<uint4>(to, from, done);
  } else if (alignment % 4 == 0) {
    done = bytes / 4 * 4;
    copy_words<unsigned>(to, from, done);
  }
  copy_words<char>(to + done, from + done, bytes - done);
}
