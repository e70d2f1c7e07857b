// A program's own use of CUDA and NCCL, opened at run time like libhvd's.
#pragma once

#include "gpu/cuda_library.hpp"
#include "gpu/nccl_library.hpp"

#include <cstddef>
#include <vector>

namespace gpu_check {

// How many GPUs there are; 0 without CUDA or a driver.
int count_devices();

// Every failure ends the program with a message.
class Device {
 public:
  explicit Device(int number);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const libhvd::CudaLibrary& cuda() const { return cuda_; }
  void* stream() const { return stream_; }

  void* allocate(std::size_t bytes);
  void copy(void* to, const void* from, std::size_t bytes);
  void synchronize();

  template <class T>
  void write(void* memory, const std::vector<T>& values) {
    copy(memory, values.data(), values.size() * sizeof(T));
    synchronize();
  }
  template <class T>
  std::vector<T> read(const void* memory, std::size_t count) {
    std::vector<T> values(count);
    copy(values.data(), memory, count * sizeof(T));
    synchronize();
    return values;
  }

 private:
  libhvd::CudaLibrary cuda_;
  int (*malloc_)(void**, std::size_t) = nullptr;
  void* stream_ = nullptr;
};

// A communicator beside libhvd's, to be measured against.
class RawNccl {
 public:
  // All ranks call it together, after hvd_init.
  RawNccl();
  ~RawNccl();
  RawNccl(const RawNccl&) = delete;
  RawNccl& operator=(const RawNccl&) = delete;

  void allreduce(float* buffer, std::size_t count, void* stream);

 private:
  libhvd::NcclLibrary nccl_;
  libhvd::NcclComm comm_ = nullptr;
};

[[noreturn]] void die(const char* what, const char* why);

}  // namespace gpu_check
