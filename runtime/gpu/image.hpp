// Our kernels for all processors that there are, as nvcc has compiled them (a "fat binary").
#pragma once

namespace libhvd {

// Null: libhvd was built without nvcc.
const void* kernel_image();

}  // namespace libhvd
