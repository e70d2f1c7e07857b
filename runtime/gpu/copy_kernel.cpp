#include "gpu/copy_kernel.hpp"

#include "common/shared_library.hpp"
#include "common/variables.h"
#include "gpu/image.hpp"
#include "gpu/library_search.hpp"

#include <algorithm>
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

Result<CopyKernel> CopyKernel::load(const Environment& environment) {
  if (kernel_image() == nullptr)
    return fail(HVD_ERROR_UNSUPPORTED, "libhvd was built without nvcc");
  constexpr const char* kSonames[] = {"libcuda.so.1"};
  HVD_TRY(const SharedLibrary library, open_library(environment, HVD_ENV_CUDA_DRIVER, kSonames));
  CopyKernel kernel;
#define HVD_CUDA_DRIVER_LOAD(name, parameters) \
  if (!library.find(#name, kernel.name)) return lacks_function(#name);
  HVD_CUDA_DRIVER_FUNCTIONS(HVD_CUDA_DRIVER_LOAD)
#undef HVD_CUDA_DRIVER_LOAD
  HVD_CHECK(check(kernel.cuModuleLoadData(&kernel.module_, kernel_image()), "cuModuleLoadData"));
  HVD_CHECK(check(kernel.cuModuleGetFunction(&kernel.function_, kernel.module_, "hvd_copy_batch"),
                  "cuModuleGetFunction"));
  return kernel;
}

CopyKernel::CopyKernel(CopyKernel&& other) noexcept
    : cuModuleLoadData(other.cuModuleLoadData),
      cuModuleUnload(other.cuModuleUnload),
      cuModuleGetFunction(other.cuModuleGetFunction),
      cuLaunchKernel(other.cuLaunchKernel),
      module_(std::exchange(other.module_, nullptr)),
      function_(other.function_) {}

CopyKernel::~CopyKernel() {
  if (module_ != nullptr) cuModuleUnload(module_);
}

Result<void> CopyKernel::run(std::span<const DeviceCopy> copies, CudaStream stream) const {
  while (!copies.empty()) {
    CopyBatch batch{};
    std::size_t longest = 0;
    for (const DeviceCopy& copy : copies.first(std::min<std::size_t>(copies.size(), kMostCopies))) {
      batch.copies[batch.count++] = copy;
      longest = std::max(longest, copy.bytes);
    }
    const auto blocks =
        static_cast<unsigned>((longest + kCopyBytesPerBlock - 1) / kCopyBytesPerBlock);
    void* parameters[] = {&batch};
    if (blocks > 0)
      HVD_CHECK(check(cuLaunchKernel(function_, blocks, static_cast<unsigned>(batch.count), 1,
                                     kCopyThreads, 1, 1, 0, stream, parameters, nullptr),
                      "cuLaunchKernel"));
    copies = copies.subspan(static_cast<std::size_t>(batch.count));
  }
  return {};
}

}  // namespace libhvd
