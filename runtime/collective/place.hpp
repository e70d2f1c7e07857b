// Where the buffers of a call lie.
#pragma once

#include <cstdint>

namespace libhvd {

struct Place {
  bool on_device = false;    // HVD_CUDA
  void* stream = nullptr;    // a cudaStream_t; null: the default stream
  std::int32_t device = -1;  // the one that was current when the call was made; -1: is now
};

}  // namespace libhvd
