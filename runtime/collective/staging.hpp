// The layout of calls and their data in the areas of the segment. Plain values and functions on
// memory, without synchronisation: StepBarrier says when an area may be written or read.
#pragma once

#include "collective/call.hpp"
#include "transport/segment.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace libhvd {

inline constexpr std::size_t kInlineBytes = kStepHeaderBytes - sizeof(CallHeader);

// The contents of StepHeader::bytes: the header of a call, and its data if that is small.
struct StepContents {
  CallHeader call;
  alignas(8) std::byte data[kInlineBytes];
};
static_assert(sizeof(StepContents) == sizeof(StepHeader));

inline const StepContents& contents_of(const StepHeader& header) {
  return *std::launder(reinterpret_cast<const StepContents*>(header.bytes));
}
inline const StepContents& contents_of(const Area& area) {
  return contents_of(area.header);
}

inline const std::byte* bytes_of(const void* buffer) {
  return static_cast<const std::byte*>(buffer);
}
inline std::byte* bytes_of(void* buffer) {
  return static_cast<std::byte*>(buffer);
}

// Copies as memcpy does, but a pointer may be null if there are 0 bytes.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

inline bool aligned(const void* pointer, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
}

// Returns how many pieces of `piece` bytes hold that many bytes. Most calls have one, and a
// division takes long.
inline std::size_t count_pieces(std::size_t bytes, std::size_t piece) {
  return bytes <= piece ? (bytes > 0 ? 1 : 0) : (bytes + piece - 1) / piece;
}

// Bytes that are still in the first-level cache when they are read again at once.
inline constexpr std::size_t kHotBytes = 4 * 1024;

// Data that a rank shows a chunk at a time.
struct Chunks {
  std::size_t bytes;  // of a chunk

  std::size_t count(std::size_t total) const { return count_pieces(total, bytes); }
  // Returns how many of `total` bytes are in chunk `index`; 0 after the end.
  std::size_t length(std::size_t total, std::size_t index) const {
    const std::size_t begin = index * bytes;
    return begin >= total ? 0 : std::min(bytes, total - begin);
  }
  // Copies chunk `index` into the input area.
  void stage(const Area& area, const std::byte* data, std::size_t total, std::size_t index) const {
    const std::size_t now = length(total, index);
    area.used.input = static_cast<std::uint32_t>(now);
    if (now > 0) std::memcpy(area.input, data + index * bytes, now);
  }
};

// Divides a rank's input area into slots, one with a piece of data for each other rank, in the
// order of ranks. If the area does not hold a cache line for each rank, the ranks are divided into
// groups: each step serves one group, and each rank of the group has a line, this rank too.
class Slots {
 public:
  Slots(int ranks, std::size_t chunk)
      : ranks_(ranks), others_(static_cast<std::size_t>(ranks > 1 ? ranks - 1 : 1)) {
    const std::size_t lines = chunk / kCacheLine;
    in_group_ = others_ <= lines ? ranks : static_cast<int>(lines);
    bytes_ = others_ <= lines ? lines / others_ * kCacheLine : kCacheLine;
  }

  std::size_t bytes() const { return bytes_; }  // of a slot
  std::size_t all_bytes() const {
    return bytes_ * (in_group_ == ranks_ ? others_ : static_cast<std::size_t>(in_group_));
  }

  int ranks() const { return ranks_; }
  int ranks_in_group() const { return in_group_; }
  int groups() const { return (ranks_ + in_group_ - 1) / in_group_; }
  int group_of(int rank) const { return in_group_ == ranks_ ? 0 : rank / in_group_; }

  // Returns where the slot for `rank` begins in the area of `owner`.
  std::size_t begin(int owner, int rank) const {
    const int place = in_group_ == ranks_ ? rank - (rank > owner ? 1 : 0) : rank % in_group_;
    return bytes_ * static_cast<std::size_t>(place);
  }

 private:
  int ranks_;
  std::size_t others_;
  int in_group_;
  std::size_t bytes_;
};

}  // namespace libhvd
