// Bytes that grow without being cleared first, because they are about to be read from a file. A
// plain value. Throws std::bad_alloc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <utility>

namespace libhvd {

// Aligned like memory from malloc(3). Keeps its memory when it shrinks.
class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;
  ~ByteBuffer() { std::free(data_); }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Keeps the bytes up to the new size. Bytes that are new have no defined value.
  void resize(std::size_t size) {
    if (size > capacity_) {
      const std::size_t capacity = std::max(size, capacity_ + capacity_ / 2);
      void* const moved = std::realloc(data_, capacity);
      if (moved == nullptr) throw std::bad_alloc();
      data_ = static_cast<std::byte*>(moved);
      capacity_ = capacity;
    }
    size_ = size;
  }
  // Appends `count` bytes and returns them, for the caller to fill.
  std::span<std::byte> append(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) - size_) throw std::bad_alloc();
    const std::size_t at = size_;
    resize(at + count);
    return {data_ + at, count};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace libhvd
