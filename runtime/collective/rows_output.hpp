// Finds the memory for the rows of an allgather or an alltoall. It came with the call, or the
// caller allocates it once all ranks have published how many rows there are. Runs on the thread of
// the call.
#pragma once

#include "base/error.hpp"
#include "collective/arguments.hpp"
#include "collective/call.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace libhvd {

// Returns the sum, or the largest number if the sum overflows: the numbers come from other ranks.
inline std::uint64_t add_rows(std::uint64_t some, std::uint64_t more) {
  return more > std::numeric_limits<std::uint64_t>::max() - some
             ? std::numeric_limits<std::uint64_t>::max()
             : some + more;
}

struct Output {
  std::byte* bytes = nullptr;  // null: this rank takes part, but writes nothing
  Result<void> outcome{};      // what this rank returns at the end of the call
};

// Returns the output given with the call, or call.needed_rows rows from the allocator. Call it
// once, when all ranks' calls fit together. Outcome: an error if the allocator gave no memory, or
// memory that overlaps with the input.
Output find_output(const Call& call, void* given, const Allocator& allocator, const void* input,
                   std::size_t row_bytes);

// Returns the output of a rank that cannot use what the allocator gave. The other ranks continue,
// so the error must not read like a mistake that all ranks have found.
Output unusable_output(const Call& call, const std::string& why);

}  // namespace libhvd
