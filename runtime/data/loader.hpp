// Fills a batch: reads and decodes the samples of one rank in one step.
#pragma once

#include "data/batch.hpp"
#include "data/sample_cache.hpp"
#include "data/shard.hpp"
#include "data/source.hpp"

#include <atomic>
#include <memory>
#include <optional>

namespace libhvd {

// Any thread may call, each with a batch and scratch memory of its own.
class Loader {
 public:
  // `decode` may be empty: then samples are delivered as they were read.
  Loader(std::shared_ptr<const Source> source, bool cache, Decode decode);

  // Fills indices, labels, data and offsets. Stops early, with whatever is there, once `stop` is
  // set. Error: names the sample. Throws std::bad_alloc.
  Outcome load(const Shard& shard, std::int64_t step, const std::atomic<bool>& stop, Batch& batch,
               ByteBuffer& scratch);

 private:
  Outcome load_sample(std::int64_t sample, Batch& batch, ByteBuffer& scratch);
  Outcome decode_sample(std::int64_t sample, std::span<const std::byte> data, Batch& batch);

  std::shared_ptr<const Source> source_;
  std::optional<SampleCache> cache_;
  Decode decode_;
};

}  // namespace libhvd
