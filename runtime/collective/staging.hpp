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

inline constexpr std::size_t kInlineBytes = kBriefBytes - sizeof(CallBrief);

// What a brief's bytes hold.
struct Shown {
  CallBrief call;
  alignas(8) std::byte data[kInlineBytes];
};
static_assert(sizeof(Shown) == sizeof(Brief));

inline const Shown& shown_in(const Area& area) {
  return *std::launder(reinterpret_cast<const Shown*>(area.brief.bytes));
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

// What chunk `index` of `total` bytes holds.
inline std::size_t chunk_length(std::size_t total, std::size_t index) {
  const std::size_t begin = index * kChunkBytes;
  return begin >= total ? 0 : std::min(kChunkBytes, total - begin);
}

inline std::size_t chunks_in(std::size_t total) {
  return (total + kChunkBytes - 1) / kChunkBytes;
}

inline void stage_chunk(Area& area, const std::byte* data, std::size_t total, std::size_t index) {
  const std::size_t length = chunk_length(total, index);
  area.used.input = static_cast<std::uint32_t>(length);
  if (length > 0) std::memcpy(area.input, data + index * kChunkBytes, length);
}

// Where in a rank's input area a piece for each other rank stands: one after the other, without its
// own.
class Slots {
 public:
  explicit Slots(int ranks)
      : others_(static_cast<std::size_t>(ranks > 1 ? ranks - 1 : 1)),
        bytes_(kChunkBytes / others_ / kCacheLine * kCacheLine) {}

  std::size_t bytes() const { return bytes_; }  // of one
  std::size_t all_bytes() const { return bytes_ * others_; }

  std::size_t begin(int owner, int rank) const {
    return bytes_ * static_cast<std::size_t>(rank < owner ? rank : rank - 1);
  }

 private:
  std::size_t others_;
  std::size_t bytes_;
};

}  // namespace libhvd
