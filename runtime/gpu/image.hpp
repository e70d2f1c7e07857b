// The fat binary of libhvd's CUDA kernels, with one image for each supported architecture. The
// build generates its source (embed.cmake), or uses no_image.cpp.
#pragma once

namespace libhvd {

// Returns null if libhvd was built without nvcc.
const void* kernel_image();

}  // namespace libhvd
