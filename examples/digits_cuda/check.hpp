// Errors of CUDA and cuBLAS as exceptions.
#pragma once

#include <stdexcept>

#include <cuda_runtime_api.h>

namespace digits {

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `call` is what has returned this status.
void check(cudaError_t status, const char* call);

}  // namespace digits
