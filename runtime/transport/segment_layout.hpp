// What stands in a segment, and where: as values, whatever the size of the system's pages.
//
// First the header, then a block for each rank in each lane, then the input areas of all blocks,
// one set for each parity of steps, then likewise the result areas. Those of one lane and parity
// lie one after the other, so that a rank that shows something alone can use the room of all.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace libhvd {

// Bytes of one rank's contribution that are in flight at a time, at most. Input and result of two
// steps of every rank stay within a second-level cache.
inline constexpr std::size_t kChunkBytes = 64 * 1024;
// At least; a record fits in.
inline constexpr std::size_t kLeastChunkBytes = 1024;

inline constexpr std::size_t kCacheLine = 64;

inline constexpr int kLanes = 2;

using Nonce = std::array<std::uint8_t, 16>;

// How much of what a rank shows its peers will read after the step; only that travels to other
// hosts. The input counts from its start.
struct Used {
  std::uint32_t input = 0;
  std::uint32_t result_begin = 0;
  std::uint32_t result_end = 0;
  std::uint32_t wide = 0;  // 1: the input stands in the room of all ranks (Segment::wide)
};

inline constexpr std::size_t kHostBytes = 64;
inline constexpr std::size_t kMostProcessors = 1024;

// What peers read first of a step: with its number it fills one cache line, so that a small call
// moves no other. The layer above gives the bytes their meaning.
inline constexpr std::size_t kBriefBytes = 56;
struct alignas(8) StepHeader {
  std::byte bytes[kBriefBytes];
};

// The beginning of what a rank writes before a step and its peers read after it.
struct AreaHead {
  alignas(kCacheLine) std::atomic<std::uint32_t> step;  // the last one that it was published for
  StepHeader header;
  alignas(kCacheLine) Used used;
};

// All of it. There are result areas only where a layout has them.
struct Area {
  StepHeader& header;
  Used& used;
  std::byte* input;
  std::byte* result;
};

// One rank's part of a lane. A step uses the area of its own parity. Aligned to the two cache lines
// that processors fetch together.
struct alignas(2 * kCacheLine) RankBlock {
  // The number of the last step that this rank has published; also a futex word.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived;
  // Peers that sleep on it.
  alignas(kCacheLine) std::atomic<std::uint32_t> sleepers;
  // The same for steps of the ranks of this host alone, of which others hear nothing.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived_on_host;
  alignas(kCacheLine) std::atomic<std::uint32_t> sleepers_on_host;
  // The rank's, in the first lane only.
  alignas(kCacheLine) std::atomic<std::uint32_t> left;  // 1 after a clean shutdown
  std::atomic<std::uint32_t> pid;                       // for messages only
  // Written while the ranks meet, only read after.
  std::uint32_t number;        // what messages call the rank: its rank in the job
  std::uint32_t host;          // index
  char host_name[kHostBytes];  // "" when all ranks are on one host
  alignas(kCacheLine) AreaHead areas[2];
};

// What a segment is made for. Ranks of a job that spans hosts must all use the same.
struct SegmentShape {
  // On one host.
  SegmentShape(int of_ranks, int of_lanes = kLanes) : ranks(of_ranks), lanes(of_lanes) {}
  // The segments of a job on several hosts hold what every rank of the job shows. They have about
  // 16 MiB for that, or the least chunk for each rank where that is more.
  static SegmentShape across_hosts(int ranks, int lanes = kLanes);

  int ranks;
  int lanes;
  std::size_t chunk = kChunkBytes;
  bool has_results = true;
};

struct alignas(4096) SegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t size;
  std::uint32_t lanes;
  std::uint32_t chunk;
  std::uint32_t has_results;
  Nonce nonce;
  std::uint32_t host;                            // index of the host whose segment this is
  std::uint32_t bridge;                          // 1 + the rank here that runs the bridge; 0: none
  std::atomic<std::uint64_t> end;                // of the file, with all ranges ever reserved
  std::atomic<std::uint64_t> memory_end;         // the same of the file without a name
  std::atomic<std::uint32_t> memory_is_private;  // 1: a rank cannot reach that one
  std::uint64_t staging;                         // a range; 0: there is none
  std::uint64_t staging_bytes;                   // of all lanes
  // The processors on which ranks of this host may run, a bit each.
  std::array<std::atomic<std::uint64_t>, kMostProcessors / 64> processors;
  std::atomic<std::uint64_t> failure;  // the first that was found, packed; 0: none
  // 1: the bridge has passed it on, as far as it can; a futex word.
  std::atomic<std::uint32_t> failure_is_told;
  // The bridge is about to sleep: who publishes something must ring its doorbell.
  alignas(kCacheLine) std::atomic<std::uint32_t> bridge_sleeps;
  // How many wait for anybody in the second lane, and what they sleep on.
  std::atomic<std::uint32_t> idle;
  alignas(kCacheLine) std::atomic<std::uint32_t> woken;
};

static_assert(offsetof(AreaHead, header) + sizeof(StepHeader) == kCacheLine);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A pure function of the shape and the size of a page.
class SegmentLayout {
 public:
  explicit SegmentLayout(const SegmentShape& shape, std::size_t page = page_bytes());

  const SegmentShape& shape() const { return shape_; }
  int blocks() const { return shape_.lanes * shape_.ranks; }
  std::size_t page() const { return page_; }
  std::size_t bytes() const { return bytes_; }  // of all, in whole pages

  std::size_t block(int number) const {
    return sizeof(SegmentHeader) + static_cast<std::size_t>(number) * block_stride_;
  }
  std::size_t input(int number, std::uint32_t parity) const {
    return inputs_ + area_stride_ * index(number, parity);
  }
  std::size_t result(int number, std::uint32_t parity) const {
    return shape_.has_results ? results_ + area_stride_ * index(number, parity)
                              : input(number, parity);
  }
  // The input areas of all ranks in a lane begin with that of its first rank.
  std::size_t wide_bytes() const { return area_stride_ * static_cast<std::size_t>(shape_.ranks); }

 private:
  std::size_t index(int number, std::uint32_t parity) const {
    return static_cast<std::size_t>(blocks()) * parity + static_cast<std::size_t>(number);
  }

  SegmentShape shape_;
  std::size_t page_;
  std::size_t block_stride_;
  std::size_t area_stride_;
  std::size_t inputs_;
  std::size_t results_;
  std::size_t bytes_;
};

}  // namespace libhvd
