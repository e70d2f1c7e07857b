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
  constexpr const char* kDriverSonames[] = {"libcuda.so.1"};
  if (const auto driver = open_library(environment, HVD_ENV_CUDA_DRIVER, kDriverSonames);
      driver.ok())
    (void)driver->find("cuDevicePrimaryCtxGetState", cuda.cuDevicePrimaryCtxGetState);
  return cuda;
}

bool CudaLibrary::has_context(int device) const {
  unsigned flags = 0;
  int active = 0;
  if (cuDevicePrimaryCtxGetState == nullptr) return true;
  return cuDevicePrimaryCtxGetState(device, &flags, &active) != kCudaSuccess || active != 0;
}

Result<bool> CudaLibrary::has_happened(CudaEventRef event) const {
  // Otherwise asking would end a capture of a CUDA graph on another thread.
  int mode = kCudaCaptureThreadLocal;
  cudaThreadExchangeStreamCaptureMode(&mode);
  const CudaStatus status = cudaEventQuery(event);
  cudaThreadExchangeStreamCaptureMode(&mode);
  if (status == kCudaNotReady) cudaGetLastError();
  if (status == kCudaNotReady || status == kCudaUnloading) return false;
  HVD_CHECK(check(status, "cudaEventQuery"));
  return true;
}

Result<void> CudaLibrary::check(CudaStatus status, const char* function) const {
  if (status == kCudaSuccess) return {};
  cudaGetLastError();  // clears it, or the program's next check would see it
  return fail(HVD_ERROR_SYSTEM, std::string(function) + ": " + cudaGetErrorString(status) + " (" +
                                    std::to_string(status) + ")");
}

CurrentDevice::CurrentDevice(const CudaLibrary& cuda, int device) : cuda_(cuda) {
  int before = device;
  if (cuda_.cudaGetDevice(&before) == kCudaSuccess && before != device && cuda_.has_context(before))
    before_ = before;
  // Also if the number is the same: a thread that has not used CUDA has device 0, but no context.
  cuda_.cudaSetDevice(device);
}

CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) cuda_.cudaSetDevice(before_);
}

}  // namespace libhvd
