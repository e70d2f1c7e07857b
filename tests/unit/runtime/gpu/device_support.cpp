#include "device_support.hpp"

#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <utility>

#include <dlfcn.h>
#include <hvd/hvd.hpp>
#include <unistd.h>

namespace libhvd::test {

template <class... Arguments>
void Gpu::check(const char* function, Arguments... arguments) {
  using Function = int (*)(Arguments...);
  const auto called = reinterpret_cast<Function>(::dlsym(library_, function));
  if (called == nullptr) throw std::runtime_error(std::string("no ") + function);
  if (const int status = called(arguments...); status != 0)
    throw std::runtime_error(std::string(function) + " gives " + std::to_string(status));
}

Gpu::Gpu(int device) : library_(::dlopen(HVD_CUDA_DOUBLE, RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) throw std::runtime_error(::dlerror());
  use(device);
}

void* Gpu::allocate(std::size_t bytes) {
  void* memory = nullptr;
  check<void**, std::size_t>("cudaMalloc", &memory, bytes);
  return memory;
}

void Gpu::use(int device) {
  check<int>("cudaSetDevice", device);
}

void* Gpu::new_stream() {
  void* stream = nullptr;
  check<void**, unsigned>("cudaStreamCreateWithFlags", &stream, 1);
  return stream;
}

void Gpu::call(void* stream, void (*function)(void*), void* argument) {
  check<void*, void (*)(void*), void*>("cudaLaunchHostFunc", stream, function, argument);
}

void Gpu::copy(void* to, const void* from, std::size_t bytes, void* stream) {
  if (bytes == 0) return;
  check<void*, const void*, std::size_t, int, void*>("cudaMemcpyAsync", to, from, bytes, 4, stream);
}

void Gpu::synchronize(void* stream) {
  check<void*>("cudaStreamSynchronize", stream);
}

bool Gpu::is_idle(void* stream) {
  const auto query = reinterpret_cast<int (*)(void*)>(::dlsym(library_, "cudaStreamQuery"));
  return query(stream) == 0;
}

bool Gpu::has_context(int device) {
  void* const driver = ::dlopen(HVD_DRIVER_DOUBLE, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) throw std::runtime_error(::dlerror());
  const auto ask = reinterpret_cast<int (*)(int, unsigned*, int*)>(
      ::dlsym(driver, "cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  ask(device, &flags, &active);
  return active != 0;
}

Counter::Counter(const char* variable)
    : file_(std::string(std::getenv("HVD_SHM_DIR")) + "/" + variable + std::to_string(::getpid())) {
  ::setenv(variable, file_.c_str(), 1);
}

std::size_t Counter::take() {
  std::ifstream file(file_, std::ios::ate | std::ios::binary);
  const auto all = file ? static_cast<std::size_t>(file.tellg()) : 0;
  return all - std::exchange(taken_, all);
}

hvd_options on_cuda(const char* name, void* stream) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = name;
  options.memory = HVD_CUDA;
  options.stream = stream;
  return options;
}

std::map<std::string, std::string> doubles() {
  return {{"HVD_CUDA_LIBRARY", HVD_CUDA_DOUBLE},
          {"HVD_NCCL_LIBRARY", HVD_NCCL_DOUBLE},
          {"HVD_CUDA_DRIVER", HVD_DRIVER_DOUBLE}};
}

std::vector<std::string> run_on_gpus(const GpuJob& job, const GpuBody& body) {
  auto variables = doubles();
  for (const auto& [name, value] : job.variables) variables[name] = value;
  Job processes(
      job.hosts.empty() ? std::vector<int>(static_cast<std::size_t>(job.size), 0) : job.hosts,
      [&](int rank, const Child::Report& report) {
        const auto own = static_cast<std::size_t>(rank);
        if (rank == job.odd_rank) {
          for (const auto& [name, value] : job.odd_variables)
            ::setenv(name.c_str(), value.c_str(), 1);
        }
        try {
          Gpu gpu(job.devices.empty() ? rank : job.devices[own]);
          hvd::init();
          report(body(rank, gpu));
          hvd::shutdown();
        } catch (const std::exception& exception) {
          report(exception.what());
        }
      },
      variables);
  std::vector<std::string> outcomes;
  for (int rank = 0; rank < job.size; ++rank)
    outcomes.push_back(processes.rank(rank).line().value_or("(ended without a line)"));
  return outcomes;
}

}  // namespace libhvd::test
