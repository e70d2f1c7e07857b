// Bytes that grow and are not cleared first: they are about to be read from a file.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {

// Aligned as malloc(3) does it. Throws std::bad_alloc. Keeps its memory when it shrinks.
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
  // The new bytes at the end, for the caller to fill.
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

// What the reader delivers, and what a decode callback sees and makes of a sample.

// One rank's part of a step's batch. Its memory is used again for later batches.
struct Batch {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t batch_size = 0;  // samples of all ranks together
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> labels;
  ByteBuffer data;                      // the samples' bytes one after the other
  std::vector<std::size_t> offsets{0};  // where each begins, and the end
};

struct Sample {
  std::int64_t index = 0;
  std::int64_t label = -1;
  std::span<const std::byte> data;
  std::string name;
};

// A sample's place at the end of a batch.
class SampleOutput {
 public:
  SampleOutput(ByteBuffer& data, std::int64_t label)
      : data_(data), begin_(data.size()), label_(label) {}

  std::byte* resize(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(-1) - begin_) throw std::bad_alloc();
    data_.resize(begin_ + bytes);
    return data_.data() + begin_;
  }
  void set_label(std::int64_t label) { label_ = label; }
  std::int64_t label() const { return label_; }

 private:
  ByteBuffer& data_;
  std::size_t begin_;
  std::int64_t label_;
};

// Called by several threads at the same time; may throw.
using Decode = std::function<Outcome(const Sample&, SampleOutput&)>;

// Samples on a disk, numbered from 0: some bytes each, with a label or without.

// Does not change once it is open. Any thread may call, at the same time as others.
class Source {
 public:
  virtual ~Source() = default;

  virtual std::int64_t samples() const = 0;
  // Sorted; the label is the index. Empty: the source has no labels.
  virtual const std::vector<std::string>& classes() const = 0;

  // The following take 0 ... samples() - 1.
  virtual std::int64_t label(std::int64_t sample) const = 0;  // -1: none
  virtual std::string name(std::int64_t sample) const = 0;    // for messages
  // Appends the sample's bytes. Error: without the sample's name; `out` may have got some bytes.
  virtual Outcome read(std::int64_t sample, ByteBuffer& out) const = 0;

  // Of what there is, not of the samples' bytes.
  virtual std::uint32_t fingerprint() const = 0;
};

// A regular file that is read at any place by any thread.

// Errors are without the path, "cannot be opened: Permission denied": the caller knows more.
class InputFile {
 public:
  // Error: it cannot be opened, or is something else (a pipe would never end).
  static Result<InputFile> open(const std::string& path);

  std::uint64_t size() const { return size_; }  // when it was opened
  // Fills all of `bytes`. Error: the file ends before.
  Outcome read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  InputFile(Fd fd, std::uint64_t size) : fd_(std::move(fd)), size_(size) {}

  Fd fd_;
  std::uint64_t size_;
};

}  // namespace libhvd
