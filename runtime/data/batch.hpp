// What the reader delivers, and what a decode callback sees and makes of a sample.
#pragma once

#include "base/result.hpp"
#include "data/byte_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

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

}  // namespace libhvd
