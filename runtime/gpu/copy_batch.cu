// Does many copies from device to device in one launch, because launches are the cost of small
// tensors.
#include "copy_batch.h"

#include <cstddef>
#include <cstdint>

namespace libhvd::kernels {

// Copies `words` words. The loads of a thread are all on their way before its first store, because
// memory answers late.
template <class Word>
__device__ void copy_words(Word* to, const Word* from, unsigned words) {
  constexpr unsigned kInFlight = 4;
  for (unsigned first = threadIdx.x; first < words; first += kInFlight * kCopyThreads) {
    const Word* const source = from + first;
    Word* const target = to + first;
    const unsigned left = words - first;
    Word values[kInFlight];
#pragma unroll
    for (unsigned i = 0; i < kInFlight; ++i)
      if (i * kCopyThreads < left) values[i] = source[i * kCopyThreads];
#pragma unroll
    for (unsigned i = 0; i < kInFlight; ++i)
      if (i * kCopyThreads < left) target[i * kCopyThreads] = values[i];
  }
}

// Copies by the widest words that both addresses allow, and what is less than a word by bytes.
template <class Word, class... NarrowerWords>
__device__ void copy_aligned(char* to, const char* from, unsigned bytes) {
  constexpr unsigned kWord = sizeof(Word);
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if constexpr (sizeof...(NarrowerWords) > 0) {
    if (addresses % kWord != 0) return copy_aligned<NarrowerWords...>(to, from, bytes);
  }
  copy_words(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from), bytes / kWord);
  const unsigned rest = bytes % kWord;
  if (threadIdx.x < rest) to[bytes - rest + threadIdx.x] = from[bytes - rest + threadIdx.x];
}

extern "C" __global__ void hvd_copy_batch(const __grid_constant__ CopyBatch batch) {
  const DeviceCopy copy = batch.copies[blockIdx.y];
  const std::size_t begin = blockIdx.x * kCopyBytesPerBlock;
  if (begin >= copy.bytes) return;
  const std::size_t left = copy.bytes - begin;
  const auto bytes = static_cast<unsigned>(left < kCopyBytesPerBlock ? left : kCopyBytesPerBlock);
  char* const to = static_cast<char*>(copy.to) + begin;
  const char* const from = static_cast<const char*>(copy.from) + begin;
  copy_aligned<uint4, uint2, uint1, ushort1, uchar1>(to, from, bytes);
}

}  // namespace libhvd::kernels
