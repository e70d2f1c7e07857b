// Replaces on the CPU what adasum.cu uses of CUDA's header of this name.
#pragma once

#include <hvd/float16.hpp>

using __nv_bfloat16 = hvd::bfloat16;

inline float __bfloat162float(__nv_bfloat16 value) {
  return static_cast<float>(value);
}
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return __nv_bfloat16(value);
}
