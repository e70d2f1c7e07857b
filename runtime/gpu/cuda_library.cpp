#include "gpu/cuda_library.hpp"

#include "common/variables.h"

#include <string>

namespace libhvd {
namespace {

Result<SharedLibrary> open_named(const std::string& name, const char* variable) {
  const auto library = SharedLibrary::open(name);
  if (library) return *library;
  return fail(HVD_ERROR_UNSUPPORTED,
              std::string(variable) + " cannot be opened: " + library.error());
}

}  // namespace

Result<SharedLibrary> open_library(const Environment& environment, const char* variable,
                                   std::span<const char* const> sonames) {
  const auto named = environment(variable);
  if (named && !named->empty()) return open_named(*named, variable);
  std::string why;
  for (const int flags : {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    for (const char* soname : sonames) {
      const auto library = SharedLibrary::open(soname, flags);
      if (library) return *library;
      why = library.error();
    }
  }
  return fail(HVD_ERROR_UNSUPPORTED, std::string(sonames.front()) + " cannot be opened (" +
                                         variable + " may name another): " + why);
}

Error lacks_function(const char* name) {
  return fail(HVD_ERROR_UNSUPPORTED, std::string("the library has no ") + name + "; it is too old");
}

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
  cudaGetLastError();  // or the program's next check would see ours
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
