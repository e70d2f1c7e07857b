// A copy of the state, or of a rank's share of it, as it will lie in the file. The memory is kept
// and used again, so that only the first save pays for getting its pages.
//
// One owner, one thread; whoever writes the copy reads it only until the next take().
#pragma once

#include "base/mapping.hpp"
#include "base/result.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/item.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace libhvd::checkpoint {

class Snapshot {
 public:
  // Copies bytes begin … end of the data; `parts` is lay_out() of the items. Error: no memory.
  Outcome take(std::span<const Item> items, std::span<const Part> parts, std::uint64_t begin,
               std::uint64_t end);

  // Of byte `begin`; on the boundary of a page.
  const std::byte* data() const { return memory_.data(); }

 private:
  Mapping memory_;
};

}  // namespace libhvd::checkpoint
