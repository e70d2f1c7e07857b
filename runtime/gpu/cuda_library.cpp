#include "gpu/cuda_library.hpp"

#include "common/shared_library.hpp"
#include "common/variables.h"
#include "gpu/library_search.hpp"

#include <string>

namespace libhvd {

Result<CudaLibrary> CudaLibrary::load(const Environment& environment) {
  constexpr const char* kSonames[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
  HVD_TRY(const SharedLibrary library, open_library(environment, HVD_ENV_CUDA_LIBRARY, kSonames));
  CudaLibrary cuda;
#define HVD_CUDA_LOAD(name, parameters) \
  if (!library.find(#name, cuda.name)) return lacks_function(#name);
  HVD_CUDA_FUNCTIONS(HVD_CUDA_LOAD)
  HVD_CUDA_LOAD(cudaGetErrorString, )
#undef HVD_CUDA_LOAD
  return cuda;
}

Result<void> CudaLibrary::check(CudaStatus status, const char* function) const {
  if (status == kCudaSuccess) return {};
  cudaGetLastError();  // clears it, or the program's next check would see it
  return fail(HVD_ERROR_SYSTEM, std::string(function) + ": " + cudaGetErrorString(status) + " (" +
                                    std::to_string(status) + ")");
}

CurrentDevice::CurrentDevice(const CudaLibrary& cuda, int device) : cuda_(cuda) {
  changed_ = cuda_.cudaGetDevice(&before_) == kCudaSuccess && before_ != device &&
             cuda_.cudaSetDevice(device) == kCudaSuccess;
}

CurrentDevice::~CurrentDevice() {
  if (changed_) cuda_.cudaSetDevice(before_);
}

}  // namespace libhvd
