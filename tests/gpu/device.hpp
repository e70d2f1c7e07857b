// A program's own use of CUDA and NCCL, opened at run time like libhvd's. Every failure ends the
// program with a message.
#pragma once

#include "gpu/cuda_library.hpp"
#include "gpu/nccl_library.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace gpu_check {

[[noreturn]] void die(const std::string& what, const std::string& why);

// Returns how many GPUs there are; 0 without CUDA or a driver.
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
  // In order with the stream.
  void copy(void* to, const void* from, std::size_t bytes);
  // Holds the stream up for some milliseconds.
  void delay();
  void synchronize();

 private:
  void check(libhvd::CudaStatus status, const char* function);

  libhvd::CudaLibrary cuda_;
  int (*launch_host_function_)(void*, void (*)(void*), void*) = nullptr;
  void* stream_ = nullptr;
};

// Memory of the device for so many elements. It is freed when the stream has come so far.
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

}  // namespace gpu_check
