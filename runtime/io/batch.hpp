// What a reader delivers, and what a decode function gets and makes of a sample. Plain values, each
// used by one thread at a time.
#pragma once

#include "base/error.hpp"
#include "io/byte_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

// One rank's part of a step's batch. Its memory is reused for later batches.
struct Batch {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t batch_size = 0;  // samples of all ranks together
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> labels;
  ByteBuffer data;                      // the samples' bytes one after the other
  std::vector<std::size_t> offsets{0};  // where each sample begins, and the end of the last
};

// What a decode function gets.
struct Sample {
  std::int64_t index = 0;
  std::int64_t label = -1;  // -1: it has no label
  std::span<const std::byte> data;
  std::string name;  // for messages
};

// A sample at the end of a batch, as a decode function fills it.
class SampleOutput {
 public:
  SampleOutput(ByteBuffer& data, std::int64_t label)
      : data_(data), begin_(data.size()), label_(label) {}

  // Gives the sample this many bytes, and returns their address. Throws std::bad_alloc.
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

// Makes a sample of a batch from the bytes that were read. Several threads call it at the same
// time. It may throw.
using Decode = std::function<Result<void>(const Sample&, SampleOutput&)>;

}  // namespace libhvd
