// Replaces on the CPU what our kernels use of CUDA C++ without an include. A thread of the CPU is
// one of a block's threads.
#pragma once

#include <array>
#include <cstddef>

#define __device__
#define __global__
#define __grid_constant__
#define __shared__ static

namespace cuda_on_threads {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
};

// How often words of each size were copied, by one thread of the CPU.
inline thread_local std::array<std::size_t, 17> words_copied{};

template <std::size_t kBytes>
struct Word {
  Word& operator=(const Word& other) {
    bytes = other.bytes;
    ++words_copied[kBytes];
    return *this;
  }

  std::array<unsigned char, kBytes> bytes{};
};

}  // namespace cuda_on_threads

inline thread_local cuda_on_threads::Index threadIdx;
inline thread_local cuda_on_threads::Index blockIdx;

using uchar1 = cuda_on_threads::Word<1>;
using ushort1 = cuda_on_threads::Word<2>;
using uint1 = cuda_on_threads::Word<4>;
using uint2 = cuda_on_threads::Word<8>;
using uint4 = cuda_on_threads::Word<16>;
