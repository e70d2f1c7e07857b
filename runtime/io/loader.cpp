#include "io/loader.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace libhvd {

SampleCache::SampleCache(const Source& source)
    : source_(source), entries_(static_cast<std::size_t>(source.samples())) {}

Result<std::span<const std::byte>> SampleCache::get(std::int64_t sample) {
  Entry& entry = entries_[static_cast<std::size_t>(sample)];
  {
    const std::lock_guard lock(mutex_);
    if (entry.data != nullptr) return std::span<const std::byte>(entry.data.get(), entry.size);
  }
  ByteBuffer read;
  HVD_CHECK(source_.read(sample, read));
  auto copy = std::make_unique_for_overwrite<std::byte[]>(read.size());
  std::copy_n(read.data(), read.size(), copy.get());
  const std::lock_guard lock(mutex_);
  if (entry.data == nullptr) entry = {std::move(copy), read.size()};
  return std::span<const std::byte>(entry.data.get(), entry.size);
}

Loader::Loader(std::shared_ptr<const Source> source, bool cache, Decode decode)
    : source_(std::move(source)), decode_(std::move(decode)) {
  if (cache) cache_.emplace(*source_);
}

Result<void> Loader::load(const Shard& shard, std::int64_t step, const std::atomic<bool>& stop,
                          Batch& batch, ByteBuffer& scratch) {
  HVD_CHECK(shard.indices(step, batch.indices));
  HVD_TRY(batch.batch_size, shard.batch_size(step));
  batch.labels.clear();
  batch.data.resize(0);
  batch.offsets.assign(1, 0);
  for (const std::int64_t sample : batch.indices) {
    if (stop) break;
    const Result<void> loaded = load_sample(sample, batch, scratch);
    if (!loaded.ok())
      return with_context(source_->name(sample) + " (sample " + std::to_string(sample) + ")",
                          loaded.error());
    batch.offsets.push_back(batch.data.size());
  }
  return {};
}

Result<void> Loader::load_sample(std::int64_t sample, Batch& batch, ByteBuffer& scratch) {
  if (!decode_ && !cache_) {
    batch.labels.push_back(source_->label(sample));
    return source_->read(sample, batch.data);
  }
  std::span<const std::byte> data;
  if (cache_) {
    HVD_TRY(data, cache_->get(sample));
  } else {
    scratch.resize(0);
    HVD_CHECK(source_->read(sample, scratch));
    data = {scratch.data(), scratch.size()};
  }
  if (decode_) return decode_sample(sample, data, batch);
  batch.labels.push_back(source_->label(sample));
  std::copy(data.begin(), data.end(), batch.data.append(data.size()).begin());
  return {};
}

Result<void> Loader::decode_sample(std::int64_t sample, std::span<const std::byte> data,
                                   Batch& batch) {
  const Sample in{sample, source_->label(sample), data, source_->name(sample)};
  SampleOutput out(batch.data, in.label);
  try {
    HVD_CHECK(decode_(in, out));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& exception) {
    return fail(HVD_ERROR_SYSTEM, exception.what());
  }
  batch.labels.push_back(out.label());
  return {};
}

}  // namespace libhvd
