// Owners of CUDA objects: stream and device memory. Every error is a DeviceError.
#pragma once

#include "check.hpp"

#include <cstddef>
#include <span>
#include <utility>

namespace digits {

// Selects the GPU for this thread. The number is taken modulo the number of GPUs, so that ranks
// may share one.
void select_device(int number);

class Stream {
 public:
  Stream();
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

// An array in device memory. Its operations are enqueued on the stream.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* memory = nullptr;
    check(cudaMalloc(&memory, size * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(memory);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }

  void clear(const Stream& stream) {
    check(cudaMemsetAsync(data_, 0, size_ * sizeof(T), stream.get()), "cudaMemsetAsync");
  }
  // Copies the values to the beginning of the array. Returns after the copy.
  void write(std::span<const T> values, const Stream& stream) {
    check(cudaMemcpyAsync(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice,
                          stream.get()),
          "cudaMemcpyAsync");
    stream.synchronize();
  }
  // Fills `values` from element `begin` on. Returns after the copy.
  void read(std::span<T> values, const Stream& stream, std::size_t begin = 0) const {
    check(cudaMemcpyAsync(values.data(), data_ + begin, values.size_bytes(), cudaMemcpyDeviceToHost,
                          stream.get()),
          "cudaMemcpyAsync");
    stream.synchronize();
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

}  // namespace digits
