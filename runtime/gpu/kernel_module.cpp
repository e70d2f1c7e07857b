#include "gpu/kernel_module.hpp"

#include "common/shared_library.hpp"
#include "common/variables.h"
#include "gpu/image.hpp"
#include "gpu/library_search.hpp"

#include <string>
#include <utility>

namespace libhvd {
namespace {

Result<void> check(int status, const char* function) {
  if (status == 0) return {};
  return fail(HVD_ERROR_UNSUPPORTED,
              std::string(function) + " of the CUDA driver gives " + std::to_string(status));
}

}  // namespace

Result<KernelModule> KernelModule::load(const Environment& environment) {
  if (kernel_image() == nullptr)
    return fail(HVD_ERROR_UNSUPPORTED, "libhvd was built without nvcc");
  constexpr const char* kSonames[] = {"libcuda.so.1"};
  HVD_TRY(const SharedLibrary library, open_library(environment, HVD_ENV_CUDA_DRIVER, kSonames));
  KernelModule module;
#define HVD_CUDA_DRIVER_LOAD(name, parameters) \
  if (!library.find(#name, module.name)) return lacks_function(#name);
  HVD_CUDA_DRIVER_FUNCTIONS(HVD_CUDA_DRIVER_LOAD)
#undef HVD_CUDA_DRIVER_LOAD
  HVD_CHECK(check(module.cuModuleLoadData(&module.module_, kernel_image()), "cuModuleLoadData"));
  return module;
}

KernelModule::KernelModule(KernelModule&& other) noexcept
    : cuModuleLoadData(other.cuModuleLoadData),
      cuModuleUnload(other.cuModuleUnload),
      cuModuleGetFunction(other.cuModuleGetFunction),
      cuLaunchKernel(other.cuLaunchKernel),
      module_(std::exchange(other.module_, nullptr)) {}

KernelModule::~KernelModule() {
  if (module_ != nullptr) cuModuleUnload(module_);
}

Result<void*> KernelModule::find(const char* name) const {
  void* kernel = nullptr;
  HVD_CHECK(check(cuModuleGetFunction(&kernel, module_, name), "cuModuleGetFunction"));
  return kernel;
}

Result<void> KernelModule::launch(void* kernel, const KernelGrid& grid, CudaStream stream,
                                  std::span<void*> parameters) const {
  return check(cuLaunchKernel(kernel, grid.x, grid.y, 1, grid.threads, 1, 1, 0, stream,
                              parameters.data(), nullptr),
               "cuLaunchKernel");
}

}  // namespace libhvd
