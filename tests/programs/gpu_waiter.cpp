// gpu_waiter FILE: a rank of a job whose GPUs sum two tensors, "first" and "grad". Before "grad"
// the GPU of the last rank waits until FILE exists. HVD_CUDA_LIBRARY names the CUDA runtime or its
// double. Prints the sum, which is the number of ranks, when the GPU is done.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include <dlfcn.h>
#include <hvd/hvd.hpp>
#include <unistd.h>

namespace {

constexpr int kCopyDefault = 4;  // enum cudaMemcpyKind

template <class... Arguments>
void cuda(const char* function, Arguments... arguments) {
  static void* const library = ::dlopen(std::getenv("HVD_CUDA_LIBRARY"), RTLD_NOW);
  const auto called = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library, function));
  if (called == nullptr) throw std::runtime_error(std::string("no ") + function);
  if (const int status = called(arguments...); status != 0)
    throw std::runtime_error(std::string(function) + " gives " + std::to_string(status));
}

void copy(void* to, const void* from) {
  cuda<void*, const void*, std::size_t, int, void*>("cudaMemcpyAsync", to, from, sizeof(float),
                                                    kCopyDefault, nullptr);
}

void sum(float* tensor, const char* name) {
  hvd::Options options(name);
  options.memory = hvd::Memory::cuda;
  hvd::allreduce(std::span(tensor, 1), hvd::Op::sum, options);
}

void wait_for(void* file) {
  while (::access(static_cast<const char*>(file), F_OK) != 0) ::usleep(1000);
}

void run(char* file) {
  hvd::init();
  cuda<int>("cudaSetDevice", hvd::local_rank());
  void* memory = nullptr;
  cuda<void**, std::size_t>("cudaMalloc", &memory, sizeof(float));
  auto* const tensor = static_cast<float*>(memory);
  float value = 1;
  copy(tensor, &value);
  sum(tensor, "first");
  copy(tensor, &value);
  if (hvd::rank() == hvd::size() - 1)
    cuda<void*, void (*)(void*), void*>("cudaLaunchHostFunc", nullptr, wait_for, file);
  sum(tensor, "grad");
  copy(&value, tensor);
  cuda<void*>("cudaStreamSynchronize", nullptr);
  std::printf("the sum is %g\n", static_cast<double>(value));
  hvd::shutdown();
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  try {
    run(words[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
