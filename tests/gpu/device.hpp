// Calls CUDA and NCCL for gpu_check, which opens them at run time as libhvd does. Every failure
// ends the program with a message.
#pragma once

#include "gpu/cuda_library.hpp"
#include "gpu/nccl_library.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace gpu_check {

[[noreturn]] void die(const std::string& what, const std::string& why);

// Returns the number of GPUs; 0 without CUDA or a driver.
int count_devices();

// A device and a stream on it.
class Device {
 public:
  explicit Device(int number);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  void* stream() const { return stream_; }

  void* allocate(std::size_t bytes);
  void free(void* memory);
  // Enqueues a copy on the stream.
  void copy(void* to, const void* from, std::size_t bytes);
  // Delays the later work of the stream by some milliseconds.
  void delay();
  void synchronize();

 private:
  void check(libhvd::CudaStatus status, const char* function);

  libhvd::CudaLibrary cuda_;
  int (*launch_host_function_)(void*, void (*)(void*), void*) = nullptr;
  void* stream_ = nullptr;
};

// Memory of the device for `count` elements. The destructor waits for the stream, then frees it.
template <class T>
class DeviceMemory {
 public:
  DeviceMemory(Device& device, std::size_t count)
      : device_(device),
        count_(count),
        data_(count == 0 ? nullptr : static_cast<T*>(device.allocate(count * sizeof(T)))) {}
  DeviceMemory(Device& device, const std::vector<T>& values) : DeviceMemory(device, values.size()) {
    device_.copy(data_, values.data(), bytes());
    device_.synchronize();
  }
  ~DeviceMemory() {
    device_.synchronize();
    if (data_ != nullptr) device_.free(data_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  void take(const DeviceMemory& other) { device_.copy(data_, other.data_, bytes()); }

  std::vector<T> read() const {
    std::vector<T> values(count_);
    device_.copy(values.data(), data_, bytes());
    device_.synchronize();
    return values;
  }

 private:
  Device& device_;
  std::size_t count_;
  T* data_;
};

// A separate NCCL communicator, for comparison with libhvd's.
class RawNccl {
 public:
  // All ranks make one at the same time, after hvd_init.
  RawNccl();
  ~RawNccl();
  RawNccl(const RawNccl&) = delete;
  RawNccl& operator=(const RawNccl&) = delete;

  void allreduce(float* buffer, std::size_t count, void* stream);

 private:
  libhvd::NcclLibrary nccl_;
  libhvd::NcclComm comm_ = nullptr;
};

}  // namespace gpu_check
