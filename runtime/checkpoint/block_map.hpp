// Where the blocks of a checkpoint's data belong in the caller's memory.
#pragma once

#include "checkpoint/format.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace libhvd::checkpoint {

// Where the parts of a checkpoint go: one pointer a part, with room for its bytes.
using Destinations = std::vector<std::byte*>;

// Both arguments must outlive it.
class BlockMap {
 public:
  BlockMap(const Index& index, const Destinations& destinations)
      : index_(index), destinations_(destinations) {}

  std::uint64_t blocks() const { return index_.blocks.count(); }
  std::uint64_t length(std::uint64_t block) const { return index_.blocks.length(block); }

  // The place in the caller's memory when the block lies in one part; else null.
  std::byte* direct(std::uint64_t block) const;

  // Copies a block's bytes to where they belong.
  void scatter(std::uint64_t block, const std::byte* bytes) const;

 private:
  std::size_t first_part(std::uint64_t block) const;

  const Index& index_;
  const Destinations& destinations_;
};

}  // namespace libhvd::checkpoint
