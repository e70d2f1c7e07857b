// Where the blocks of a checkpoint's data belong in the caller's memory. A value; const functions,
// for any thread. Cannot fail.
#pragma once

#include "checkpoint/format.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace libhvd::checkpoint {

class BlockMap {
 public:
  // `destinations`: the address of each part of the index. Both must outlive the map.
  BlockMap(const Index& index, const std::vector<std::byte*>& destinations)
      : index_(index), destinations_(destinations) {}

  std::uint64_t blocks() const { return index_.blocks.count(); }
  std::uint64_t length(std::uint64_t block) const { return index_.blocks.length(block); }

  // Returns the block's address in the caller's memory if the block is within one part, else null.
  std::byte* direct(std::uint64_t block) const;

  // Copies a block's bytes to the parts that they belong to.
  void scatter(std::uint64_t block, const std::byte* bytes) const;

 private:
  std::size_t first_part(std::uint64_t block) const;

  const Index& index_;
  const std::vector<std::byte*>& destinations_;
};

}  // namespace libhvd::checkpoint
