#include "device.hpp"

#include <string>

namespace digits {

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw DeviceError(std::string(call) + ": " + cudaGetErrorString(status));
  }
}

void select_device(int number) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    throw DeviceError(std::string("no CUDA device: ") + cudaGetErrorString(status));
  }
  if (count == 0) throw DeviceError("no CUDA device");
  check(cudaSetDevice(number % count), "cudaSetDevice");
}

// Not ordered with the default stream, which other code in the process may use.
Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

void Stream::synchronize() const {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

}  // namespace digits
