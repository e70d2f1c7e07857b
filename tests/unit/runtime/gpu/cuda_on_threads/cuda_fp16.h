// Replaces on the CPU what adasum.cu uses of CUDA's header of this name.
#pragma once

#include <hvd/float16.hpp>

using __half = hvd::float16;

inline float __half2float(__half value) {
  return static_cast<float>(value);
}
inline __half __float2half_rn(float value) {
  return __half(value);
}
