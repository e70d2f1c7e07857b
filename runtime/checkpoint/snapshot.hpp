// A copy of the state, or of a rank's share of it, laid out as in the file. It keeps its memory for
// the next save, so only the first save pays for getting the pages.
//
// One owner, one thread. Another thread may read the copy until the next take().
#pragma once

#include "base/error.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/item.hpp"
#include "common/mapping.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace libhvd::checkpoint {

class Snapshot {
 public:
  // Copies the bytes from `begin` to before `end` of the data. `parts` is lay_out() of the items.
  // Error: no memory.
  Result<void> take(std::span<const Item> items, std::span<const Part> parts, std::uint64_t begin,
                    std::uint64_t end);

  // Returns the address of byte `begin`; it is on the boundary of a page.
  const std::byte* data() const { return memory_.data(); }

 private:
  Mapping memory_;
};

}  // namespace libhvd::checkpoint
