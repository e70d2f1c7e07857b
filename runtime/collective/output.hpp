// Where the rows of an allgather or an alltoall go: into memory that came with the call, or into
// what the caller allocates once all ranks have said how many rows there are.
#pragma once

#include "base/result.hpp"
#include "collective/allocator.hpp"
#include "collective/arguments.hpp"
#include "collective/call.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace libhvd {

// What a rank with an allocator says of its room.
inline constexpr std::uint64_t kAnyRoom = std::numeric_limits<std::uint64_t>::max();

// Of numbers that other ranks tell: the sum, or the largest there is.
inline std::uint64_t add_rows(std::uint64_t some, std::uint64_t more) {
  return more > std::numeric_limits<std::uint64_t>::max() - some
             ? std::numeric_limits<std::uint64_t>::max()
             : some + more;
}
// Whether there can be so many.
inline bool makes_sense(std::uint64_t rows, std::size_t row_bytes) {
  return row_bytes == 0 || rows <= kMostBytes / row_bytes;
}

struct Output {
  std::byte* bytes = nullptr;  // null: this rank takes part, but writes nothing
  Outcome outcome = Done{};    // this rank's when the call has come to its end
};

// The output given with the call, or call.needed_rows rows of the allocator's, apart from the
// input. Called once, when all ranks' calls fit together.
Output find_output(const Call& call, void* given, const Allocator& allocator, const void* input,
                   std::size_t row_bytes);

// Of what the allocator gave, and this rank cannot use. The others go on, so this must not read
// like a mistake that all ranks have found.
Output unusable_output(const Call& call, const std::string& why);

}  // namespace libhvd
