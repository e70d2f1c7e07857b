// Errors of CUDA and cuBLAS as exceptions.
#pragma once

#include <stdexcept>

#include <cuda_runtime_api.h>

namespace digits {

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws DeviceError unless the status is success. `call`: the function that returned it.
void check(cudaError_t status, const char* call);

}  // namespace digits
