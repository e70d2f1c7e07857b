// The structures in a segment, and where each is. Plain values and pure functions; a layout follows
// from the shape of the segment and the size of a page.
//
// First comes the header, then a block for each rank in each lane, then the input areas of all
// blocks, one set for each parity of steps, then the result areas in the same way. The areas of one
// lane and parity follow each other, so that a rank that shows something alone can use the room of
// all.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace libhvd {

// The most bytes of one rank's data that are in flight at a time. Input and result of two steps of
// every rank stay within a second-level cache.
inline constexpr std::size_t kChunkBytes = 64 * 1024;
// The least; a record fits in.
inline constexpr std::size_t kLeastChunkBytes = 1024;

// Bytes of an input area that describe a call in its first step. The layer above gives them their
// meaning.
inline constexpr std::size_t kRecordBytes = 512;
static_assert(kRecordBytes <= kLeastChunkBytes);

inline constexpr std::size_t kCacheLine = 64;

inline constexpr int kLanes = 2;

using Nonce = std::array<std::uint8_t, 16>;

// The part of an input area that peers read after the step. It begins where the area begins. Only
// this part travels to other hosts.
struct Used {
  std::uint32_t input = 0;  // bytes
  std::uint32_t wide = 0;   // 1: the input is in the room of all ranks (Segment::wide)
};

inline constexpr std::size_t kHostBytes = 64;
inline constexpr std::size_t kMostProcessors = 1024;

// What peers read first of a step. With the number of the step it fills one cache line, so that a
// small call moves no other line. The layer above gives the bytes their meaning.
inline constexpr std::size_t kStepHeaderBytes = 56;
struct alignas(8) StepHeader {
  std::byte bytes[kStepHeaderBytes];
};

// Copies word by word. A processor waits when it reads at once what it has just written in parts.
inline void copy_header(StepHeader& to, const StepHeader& from) {
  for (std::size_t at = 0; at < kStepHeaderBytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, from.bytes + at, sizeof word);
    // An atomic store, so that the compiler does not join the words.
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(to.bytes + at))
        .store(word, std::memory_order_relaxed);
  }
}

// The beginning of what a rank writes before a step and its peers read after it.
struct AreaHead {
  alignas(kCacheLine) std::atomic<std::uint32_t> step;  // the last one that it was published for
  StepHeader header;
  alignas(kCacheLine) Used used;
};

// A small message of one rank to all others of its host, which it does not wait for (StepBarrier::
// post). Posts use a rank's slots in turn, which follow its block if there is room. More than a
// slot holds is in the rank's first result area, which is divided into as many places.
inline constexpr std::uint32_t kPosts = 16;
inline constexpr std::size_t kSlotBytes = 64;
struct PostSlot {
  alignas(2 * kCacheLine) std::atomic<std::uint32_t> step;  // the last one that it was posted for
  StepHeader header;
  std::byte data[kSlotBytes];
};

// All that a rank writes before a step. Without result areas in the layout, `result` is the input.
struct Area {
  StepHeader& header;
  Used& used;
  std::byte* input;
  std::byte* result;
};

// Shows which process a rank is (peer_memory.hpp). All 0 if the rank has not published it.
struct MemoryProof {
  std::uint64_t address;  // of the number in that process
  std::uint64_t number;   // a random one
  std::uint32_t pid;
};

// One rank's part of a lane. A step uses the area of its parity. It is aligned to the two cache
// lines that processors fetch together.
struct alignas(2 * kCacheLine) RankBlock {
  // The number of the last step that this rank has published; also a futex word.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived;
  // How many peers sleep on it.
  alignas(kCacheLine) std::atomic<std::uint32_t> sleepers;
  // The same for the steps of this host's ranks alone, which do not travel to other hosts.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived_on_host;
  alignas(kCacheLine) std::atomic<std::uint32_t> sleepers_on_host;
  // Facts of the rank, in the first lane only.
  alignas(kCacheLine) std::atomic<std::uint32_t> left;  // 1 after a clean shutdown
  std::atomic<std::uint32_t> pid;                       // for messages only
  // Written in the wire-up, only read after it.
  std::uint32_t number;        // the rank in the job, which messages show
  std::uint32_t host;          // index
  char host_name[kHostBytes];  // "" if all ranks are on one host
  MemoryProof memory_proof;    // of the lane; written before the rank's first step there
  alignas(kCacheLine) AreaHead areas[2];
};

// The parameters of a segment. The ranks of a job that spans hosts must all use the same.
struct SegmentShape {
  // On one host.
  SegmentShape(int of_ranks, int of_lanes = kLanes) : ranks(of_ranks), lanes(of_lanes) {}
  // On several hosts, where each segment holds what every rank of the job shows. The areas have
  // about 16 MiB together, or the least chunk for each rank if that is more.
  static SegmentShape across_hosts(int ranks, int lanes = kLanes);

  int ranks;
  int lanes;
  std::size_t chunk = kChunkBytes;
  bool has_results = true;  // a second area for each input area; not across hosts
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
  std::atomic<std::uint32_t> memory_is_private;  // 1: a rank cannot reach that file
  std::uint64_t staging;                         // a range; 0: none
  std::uint64_t staging_bytes;                   // of all lanes
  // The processors on which ranks of this host may run, a bit each.
  std::array<std::atomic<std::uint64_t>, kMostProcessors / 64> processors;
  std::atomic<std::uint64_t> failure;  // the first that was found, packed; 0: none
  // 1: the bridge has sent it to the other hosts, as far as it can; a futex word.
  std::atomic<std::uint32_t> failure_is_sent;
  // The bridge is about to sleep, so a rank that publishes something must ring its doorbell.
  alignas(kCacheLine) std::atomic<std::uint32_t> bridge_sleeps;
  // How many ranks wait for any other in the second lane, and the futex word that they sleep on.
  std::atomic<std::uint32_t> idle;
  alignas(kCacheLine) std::atomic<std::uint32_t> woken;
};

static_assert(offsetof(AreaHead, header) + sizeof(StepHeader) == kCacheLine);
static_assert(sizeof(PostSlot) == 2 * kCacheLine);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Positions in the segment, in bytes from its beginning. `number` is that of a block.
class SegmentLayout {
 public:
  explicit SegmentLayout(const SegmentShape& shape, std::size_t page = page_bytes());

  const SegmentShape& shape() const { return shape_; }
  int blocks() const { return shape_.lanes * shape_.ranks; }
  std::size_t page() const { return page_; }
  std::size_t bytes() const { return bytes_; }  // of the segment, in whole pages

  std::size_t block(int number) const {
    return sizeof(SegmentHeader) + static_cast<std::size_t>(number) * block_stride_;
  }
  // With many ranks there is no room for posts.
  bool has_posts() const {
    return block_stride_ >= sizeof(RankBlock) + std::size_t{kPosts} * sizeof(PostSlot);
  }
  // Returns the most bytes of a post.
  std::size_t post_bytes() const {
    return shape_.has_results ? std::max(kSlotBytes, shape_.chunk / kPosts) : kSlotBytes;
  }
  std::size_t post(int number, std::uint32_t step) const {
    return block(number) + sizeof(RankBlock) + sizeof(PostSlot) * (step % kPosts);
  }
  std::size_t input(int number, std::uint32_t parity) const {
    return inputs_ + area_stride_ * index(number, parity);
  }
  std::size_t result(int number, std::uint32_t parity) const {
    return shape_.has_results ? results_ + area_stride_ * index(number, parity)
                              : input(number, parity);
  }
  // Returns the bytes of all input areas of a lane, which begin with that of its first rank.
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
