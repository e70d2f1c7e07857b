// How calls and their data stand in the areas of the segment.
#pragma once

#include "collective/call.hpp"
#include "transport/segment.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace libhvd {

inline constexpr std::size_t kInlineBytes = kBriefBytes - sizeof(CallHeader);

// What a header's bytes hold.
struct Shown {
  CallHeader call;
  alignas(8) std::byte data[kInlineBytes];
};
static_assert(sizeof(Shown) == sizeof(StepHeader));

inline const Shown& shown_in(const Area& area) {
  return *std::launder(reinterpret_cast<const Shown*>(area.header.bytes));
}

inline const std::byte* bytes_of(const void* buffer) {
  return static_cast<const std::byte*>(buffer);
}
inline std::byte* bytes_of(void* buffer) {
  return static_cast<std::byte*>(buffer);
}

// memcpy, but a null pointer is fine with 0 bytes.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

inline bool aligned(const void* pointer, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
}

// What is read again at once is still in the first-level cache.
inline constexpr std::size_t kHotBytes = 4 * 1024;

// Data that a rank shows a chunk at a time.
struct Chunks {
  std::size_t bytes;  // of one

  std::size_t count(std::size_t total) const { return (total + bytes - 1) / bytes; }
  // What chunk `index` of `total` bytes holds.
  std::size_t length(std::size_t total, std::size_t index) const {
    const std::size_t begin = index * bytes;
    return begin >= total ? 0 : std::min(bytes, total - begin);
  }
  void stage(const Area& area, const std::byte* data, std::size_t total, std::size_t index) const {
    const std::size_t now = length(total, index);
    area.used.input = static_cast<std::uint32_t>(now);
    if (now > 0) std::memcpy(area.input, data + index * bytes, now);
  }
};

// Where in a rank's input area a piece for each other rank stands: one after the other, without its
// own. When there are so many ranks that a cache line for each is more than the area holds, they
// are taken in groups, one group a step, and each rank of a group has a line.
class Slots {
 public:
  Slots(int ranks, std::size_t chunk)
      : ranks_(ranks), others_(static_cast<std::size_t>(ranks > 1 ? ranks - 1 : 1)) {
    const std::size_t lines = chunk / kCacheLine;
    in_group_ = others_ <= lines ? ranks : static_cast<int>(lines);
    bytes_ = others_ <= lines ? lines / others_ * kCacheLine : kCacheLine;
  }

  std::size_t bytes() const { return bytes_; }  // of one
  std::size_t all_bytes() const {
    return bytes_ * (in_group_ == ranks_ ? others_ : static_cast<std::size_t>(in_group_));
  }

  int ranks_in_group() const { return in_group_; }
  int groups() const { return (ranks_ + in_group_ - 1) / in_group_; }
  int group_of(int rank) const { return rank / in_group_; }

  std::size_t begin(int owner, int rank) const {
    const bool skips_own = in_group_ == ranks_ && rank > owner;
    return bytes_ * static_cast<std::size_t>(rank % in_group_ - (skips_own ? 1 : 0));
  }

 private:
  int ranks_;
  std::size_t others_;
  int in_group_;
  std::size_t bytes_;
};

}  // namespace libhvd
