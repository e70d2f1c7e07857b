#include "transport/segment_layout.hpp"

#include <algorithm>

namespace libhvd {
namespace {

// Bytes that the input areas of all ranks of a job on several hosts have together, with two lanes
// of two areas.
constexpr std::size_t kInputBytes = std::size_t{16} << 20;

// Blocks of up to kRoomyRanks ranks have pages of their own. The processor's prefetcher stops at
// the end of a page, so it does not take a line away from the rank that writes it.
constexpr std::size_t kRoomyStride = 4096;
constexpr int kRoomyRanks = 64;
static_assert(sizeof(RankBlock) % alignof(PostSlot) == 0 &&
              alignof(RankBlock) >= alignof(PostSlot));

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

SegmentShape SegmentShape::across_hosts(int ranks, int lanes) {
  SegmentShape shape(ranks, lanes);
  const std::size_t share = kInputBytes / (2 * kLanes * static_cast<std::size_t>(ranks));
  shape.chunk = std::clamp(share / kCacheLine * kCacheLine, kLeastChunkBytes, kChunkBytes);
  shape.has_results = false;
  return shape;
}

// Puts an empty line after each area. If the areas were a power of two apart, the same place in the
// areas of several ranks would fall into the same set of a cache.
SegmentLayout::SegmentLayout(const SegmentShape& shape, std::size_t page)
    : shape_(shape),
      page_(page),
      block_stride_(shape.ranks <= kRoomyRanks ? kRoomyStride : sizeof(RankBlock)),
      area_stride_(shape.chunk + kCacheLine) {
  const std::size_t areas = area_stride_ * 2 * static_cast<std::size_t>(blocks());
  inputs_ = round_up(block(blocks()), page);
  results_ = inputs_ + areas;
  bytes_ = round_up(shape.has_results ? results_ + areas : results_, page);
}

}  // namespace libhvd
