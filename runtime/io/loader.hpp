// Fills a batch: reads and decodes the samples of one rank in one step, on the caller's thread.
#pragma once

#include "base/error.hpp"
#include "io/batch.hpp"
#include "io/byte_buffer.hpp"
#include "io/shard.hpp"
#include "io/source.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace libhvd {

// Keeps the bytes of samples from their first reading on. Any thread may call. Takes 16 bytes of
// memory per sample, and the bytes that were read.
class SampleCache {
 public:
  explicit SampleCache(const Source& source);  // `source` must outlive the cache

  // Returns the sample's bytes, valid as long as the cache. Error: the message is without the
  // sample's name.
  Result<std::span<const std::byte>> get(std::int64_t sample);

 private:
  struct Entry {
    std::unique_ptr<std::byte[]> data;  // null: not read yet
    std::size_t size = 0;
  };

  const Source& source_;
  std::mutex mutex_;  // guards entries_; not held while reading
  std::vector<Entry> entries_;
};

// Any thread may call, each with a batch and scratch memory of its own.
class Loader {
 public:
  // Without `decode`, samples are delivered as they were read.
  Loader(std::shared_ptr<const Source> source, bool cache, Decode decode);

  // Fills batch_size, indices, labels, data and offsets of the batch. Returns early, with an
  // incomplete batch, once `stop` is set. Error: a sample cannot be read or decoded; the message
  // names it. Throws std::bad_alloc.
  Result<void> load(const Shard& shard, std::int64_t step, const std::atomic<bool>& stop,
                    Batch& batch, ByteBuffer& scratch);

 private:
  Result<void> load_sample(std::int64_t sample, Batch& batch, ByteBuffer& scratch);
  Result<void> decode_sample(std::int64_t sample, std::span<const std::byte> data, Batch& batch);

  std::shared_ptr<const Source> source_;
  std::optional<SampleCache> cache_;
  Decode decode_;
};

}  // namespace libhvd
