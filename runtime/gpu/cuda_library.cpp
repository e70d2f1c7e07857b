#include "gpu/cuda_library.hpp"

#include "hvd_contract/environment.h"

#include <string>

#include <dlfcn.h>

namespace libhvd {
namespace {

Result<void*> open_named(const std::string& name, const char* variable) {
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  return fail(HVD_ERROR_UNSUPPORTED, std::string(variable) + " cannot be opened: " + ::dlerror());
}

}  // namespace

Result<void*> open_library(const Environment& environment, const char* variable,
                           std::span<const char* const> sonames) {
  const auto named = environment(variable);
  if (named && !named->empty()) return open_named(*named, variable);
  for (const int flags : {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    for (const char* soname : sonames) {
      if (void* const library = ::dlopen(soname, flags)) return library;
    }
  }
  const char* const last = ::dlerror();
  return fail(HVD_ERROR_UNSUPPORTED,
              std::string(sonames.front()) + " cannot be opened (" + variable +
                  " may name another): " + (last != nullptr ? last : "it is not there"));
}

Result<void*> find_function(void* library, const char* name) {
  if (void* const function = ::dlsym(library, name)) return function;
  return fail(HVD_ERROR_UNSUPPORTED, std::string("the library has no ") + name + "; it is too old");
}

Result<CudaLibrary> CudaLibrary::load(const Environment& environment) {
  constexpr const char* kSonames[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
  HVD_TRY(void* const library, open_library(environment, HVD_ENV_CUDA_LIBRARY, kSonames));
  CudaLibrary cuda;
  void* found = nullptr;
#define HVD_CUDA_LOAD(name, parameters)                       \
  {                                                           \
    HVD_TRY(found, find_function(library, #name));            \
    cuda.name = reinterpret_cast<decltype(cuda.name)>(found); \
  }
  HVD_CUDA_FUNCTIONS(HVD_CUDA_LOAD)
  HVD_CUDA_LOAD(cudaGetErrorString, )
#undef HVD_CUDA_LOAD
  return cuda;
}

Outcome CudaLibrary::check(CudaStatus status, const char* function) const {
  if (status == kCudaSuccess) return Done{};
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
