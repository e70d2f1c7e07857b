// The samples' bytes as they were read, kept from their first reading on.
#pragma once

#include "data/source.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace libhvd {

// Any thread may call. What get() gives stays where it is as long as the cache lives. Its memory is
// 16 bytes a sample and what was read.
class SampleCache {
 public:
  explicit SampleCache(const Source& source);  // which must live longer

  Result<std::span<const std::byte>> get(std::int64_t sample);

 private:
  struct Entry {
    std::unique_ptr<std::byte[]> data;  // null: not read yet
    std::size_t size = 0;
  };

  const Source& source_;
  std::mutex mutex_;  // for entries_; not held while reading
  std::vector<Entry> entries_;
};

}  // namespace libhvd
