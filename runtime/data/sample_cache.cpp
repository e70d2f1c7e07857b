#include "data/sample_cache.hpp"

#include <algorithm>
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
  auto kept = std::make_unique_for_overwrite<std::byte[]>(read.size());
  std::copy_n(read.data(), read.size(), kept.get());
  const std::lock_guard lock(mutex_);
  if (entry.data == nullptr) entry = {std::move(kept), read.size()};
  return std::span<const std::byte>(entry.data.get(), entry.size);
}

}  // namespace libhvd
