// Memory that collectives need not copy, in C++20: arrays that the ranks of a host share. A part of
// hvd.hpp. Made after hvd::init(); a constructor throws hvd::Error, a destructor does not throw.
#ifndef HVD_MEMORY_HPP_
#define HVD_MEMORY_HPP_

#include "hvd/collectives.hpp"
#include "hvd/hvd.h"
#include "hvd/job.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace hvd {

// An array in memory that the other ranks of the host can access, so collectives need not copy it
// (hvd_alloc). The elements are zero at first. Can be made only after hvd::init().
template <Element T>
class Buffer {
 public:
  explicit Buffer(std::size_t size) : size_(size) {
    void* memory = nullptr;
    if (size > 0) detail::check(hvd_alloc(size * sizeof(T), &memory));
    data_ = static_cast<T*>(memory);
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { hvd_free(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  std::span<T> span() const { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// An array for each tensor of a list, such as a model's gradients, in one Buffer. Every array
// begins at a multiple of 64 bytes. `sizes`: elements of each.
template <Element T>
class Buffers {
 public:
  explicit Buffers(std::span<const std::size_t> sizes) : Buffers(sizes, lay_out(sizes)) {}

  std::size_t size() const { return arrays_.size(); }
  std::span<T> operator[](std::size_t i) const { return arrays_[i]; }
  auto begin() const { return arrays_.begin(); }
  auto end() const { return arrays_.end(); }
  // All arrays as one, with zeros between them, for one call with all.
  std::span<T> together() const { return memory_.span(); }

 private:
  static constexpr std::size_t kAligned = 64 / sizeof(T);  // elements

  // Returns where each array begins, and after them the end of the last.
  static std::vector<std::size_t> lay_out(std::span<const std::size_t> sizes) {
    std::vector<std::size_t> begins{0};
    for (const std::size_t size : sizes)
      begins.push_back(begins.back() + (size + kAligned - 1) / kAligned * kAligned);
    return begins;
  }

  Buffers(std::span<const std::size_t> sizes, const std::vector<std::size_t>& begins)
      : memory_(begins.back()) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      arrays_.push_back(memory_.span().subspan(begins[i], sizes[i]));
  }

  Buffer<T> memory_;
  std::vector<std::span<T>> arrays_;
};

// Shares pages of the program with the other ranks of the host, like those of a Buffer, until it is
// destroyed (hvd_register). They must be whole pages. No thread may use them in the constructor or
// the destructor.
class Registration {
 public:
  explicit Registration(std::span<std::byte> pages) : memory_(pages.data()) {
    detail::check(hvd_register(memory_, pages.size()));
  }
  Registration(Registration&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Registration() { hvd_unregister(memory_); }

 private:
  std::byte* memory_;
};

}  // namespace hvd

#endif  // HVD_MEMORY_HPP_
