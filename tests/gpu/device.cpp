#include "device.hpp"

#include "base/process_environment.hpp"
#include "gpu/cuda_library.hpp"
#include "gpu/library_search.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <hvd/hvd.h>

namespace gpu_check {
namespace {

constexpr const char* kSonames[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};

template <class T>
T value_of(libhvd::Result<T> result, const char* what) {
  if (!result.ok()) die(what, result.error().message);
  return std::move(*result);
}

void value_of(const libhvd::Result<void>& result, const char* what) {
  if (!result.ok()) die(what, result.error().message);
}

template <class Function>
Function cudart(const char* name) {
  const auto library =
      libhvd::open_library(libhvd::process_environment(), "HVD_CUDA_LIBRARY", kSonames);
  if (!library.ok()) return nullptr;
  std::remove_pointer_t<Function>* function = nullptr;
  static_cast<void>(library->find(name, function));
  return function;
}

void check_nccl(const libhvd::NcclLibrary& nccl, libhvd::NcclComm comm, libhvd::NcclStatus status,
                const char* what) {
  while (status == libhvd::NcclStatus::in_progress) nccl.ncclCommGetAsyncError(comm, &status);
  if (status != libhvd::NcclStatus::success) die(what, nccl.ncclGetErrorString(status));
}

}  // namespace

void die(const std::string& what, const std::string& why) {
  const std::string rank = hvd_rank() < 0 ? "" : "rank " + std::to_string(hvd_rank()) + ": ";
  std::fprintf(stderr, "gpu_check: %s%s: %s\n", rank.c_str(), what.c_str(), why.c_str());
  std::exit(1);
}

int count_devices() {
  const auto count_them = cudart<int (*)(int*)>("cudaGetDeviceCount");
  int count = 0;
  if (count_them == nullptr || count_them(&count) != 0) return 0;
  return count;
}

Device::Device(int number)
    : cuda_(value_of(libhvd::CudaLibrary::load(libhvd::process_environment()), "CUDA")),
      launch_host_function_(cudart<int (*)(void*, void (*)(void*), void*)>("cudaLaunchHostFunc")) {
  if (launch_host_function_ == nullptr) die("CUDA", "no cudaLaunchHostFunc");
  check(cuda_.cudaSetDevice(number), "cudaSetDevice");
  check(cuda_.cudaStreamCreateWithFlags(&stream_, libhvd::kCudaStreamNonBlocking),
        "cudaStreamCreateWithFlags");
}

void* Device::allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cuda_.cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

void Device::free(void* memory) {
  check(cuda_.cudaFree(memory), "cudaFree");
}

void Device::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(cuda_.cudaMemcpyAsync(to, from, bytes, libhvd::kCudaMemcpyDefault, stream_),
        "cudaMemcpyAsync");
}

void Device::delay() {
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  check(launch_host_function_(stream_, sleep, nullptr), "cudaLaunchHostFunc");
}

void Device::synchronize() {
  check(cuda_.cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void Device::check(libhvd::CudaStatus status, const char* function) {
  value_of(cuda_.check(status, function), "CUDA");
}

RawNccl::RawNccl()
    : nccl_(value_of(libhvd::NcclLibrary::load(libhvd::process_environment()), "NCCL")) {
  libhvd::NcclUniqueId id{};
  if (hvd_rank() == 0) check_nccl(nccl_, nullptr, nccl_.ncclGetUniqueId(&id), "ncclGetUniqueId");
  if (hvd_broadcast(&id, sizeof id, HVD_UINT8, 0, nullptr) != HVD_OK) die("id", hvd_last_error());
  libhvd::NcclConfig config;
  config.blocking = hvd_size() == 1 ? 1 : 0;
  const auto status = nccl_.ncclCommInitRankConfig(&comm_, hvd_size(), id, hvd_rank(), &config);
  check_nccl(nccl_, comm_, status, "ncclCommInitRankConfig");
}

RawNccl::~RawNccl() {
  nccl_.ncclCommAbort(comm_);
}

void RawNccl::allreduce(float* buffer, std::size_t count, void* stream) {
  const auto status = nccl_.ncclAllReduce(buffer, buffer, count, libhvd::NcclType::float32,
                                          libhvd::NcclOp::sum, comm_, stream);
  check_nccl(nccl_, comm_, status, "ncclAllReduce");
}

}  // namespace gpu_check
