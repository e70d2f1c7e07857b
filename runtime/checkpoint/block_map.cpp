#include "checkpoint/block_map.hpp"

#include <algorithm>
#include <cstring>

namespace libhvd::checkpoint {

std::byte* BlockMap::direct(std::uint64_t block) const {
  const std::size_t part = first_part(block);
  const std::uint64_t begin = index_.blocks.begin(block);
  const Part& first = index_.parts[part];
  const bool inside =
      first.offset <= begin && begin + length(block) <= first.offset + first.description.bytes;
  return inside ? destinations_[part] + (begin - first.offset) : nullptr;
}

void BlockMap::scatter(std::uint64_t block, const std::byte* bytes) const {
  const std::uint64_t begin = index_.blocks.begin(block);
  const std::uint64_t end = begin + length(block);
  for (std::size_t i = first_part(block); i < index_.parts.size(); ++i) {
    const Part& part = index_.parts[i];
    if (part.offset >= end) break;
    const std::uint64_t from = std::max(begin, part.offset);
    const std::uint64_t to = std::min(end, part.offset + part.description.bytes);
    if (from < to)
      std::memcpy(destinations_[i] + (from - part.offset), bytes + (from - begin), to - from);
  }
}

// Returns the first part that ends after the block's begin. There always is one, because the data
// ends with a part.
std::size_t BlockMap::first_part(std::uint64_t block) const {
  const std::uint64_t begin = index_.blocks.begin(block);
  const auto found = std::ranges::partition_point(index_.parts, [begin](const Part& part) {
    return part.offset + part.description.bytes <= begin;
  });
  return static_cast<std::size_t>(found - index_.parts.begin());
}

}  // namespace libhvd::checkpoint
