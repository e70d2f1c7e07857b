// Compares our declarations of CUDA's runtime and driver with NVIDIA's headers. NCCL has a test
// file of its own, because nccl.h brings C++ overloads with it.
#include "declarations.hpp"
#include "gpu/cuda_library.hpp"
#include "gpu/kernel_module.hpp"

#include <cstddef>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace libhvd {
namespace {

using test::Alike;

#define HVD_COMPARE(name, parameters) \
  static_assert(Alike<decltype(&::name), decltype(CudaLibrary::name)>::value, #name);
HVD_CUDA_FUNCTIONS(HVD_COMPARE)

#define HVD_COMPARE_DRIVER(name, parameters) \
  static_assert(Alike<decltype(&::name), int(*) parameters>::value, #name);
HVD_CUDA_DRIVER_FUNCTIONS(HVD_COMPARE_DRIVER)

static_assert(kCudaMemoryDevice == cudaMemoryTypeDevice);
static_assert(kCudaMemoryManaged == cudaMemoryTypeManaged);
static_assert(kCudaMemcpyDefault == cudaMemcpyDefault);
static_assert(kCudaStreamNonBlocking == cudaStreamNonBlocking);
static_assert(kCudaEventDisableTiming == cudaEventDisableTiming);
static_assert(kCudaCaptureThreadLocal == cudaStreamCaptureModeThreadLocal);
static_assert(kCudaInvalidValue == cudaErrorInvalidValue);
static_assert(kCudaUnloading == cudaErrorCudartUnloading);
static_assert(kCudaNotReady == cudaErrorNotReady);
static_assert(sizeof(CudaPointer) >= sizeof(cudaPointerAttributes));
static_assert(offsetof(CudaPointer, type) == offsetof(cudaPointerAttributes, type));
static_assert(offsetof(CudaPointer, device) == offsetof(cudaPointerAttributes, device));

}  // namespace
}  // namespace libhvd
