#include "transport/segment_layout.hpp"

namespace libhvd {
namespace {

// With two lanes of two areas, all ranks of a job on several hosts share this.
constexpr std::size_t kInputBytes = std::size_t{16} << 20;

// A few ranks can reduce in slices between hosts, too, which shows results.
constexpr int kFewRanks = 16;

// Blocks of few ranks stand on pages of their own: what fetches lines ahead stops at a page's end,
// and then does not take a line from the rank that writes it.
constexpr std::size_t kRoomyStride = 4096;
constexpr int kRoomyRanks = 64;

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

SegmentShape SegmentShape::across_hosts(int ranks, int lanes) {
  SegmentShape shape(ranks, lanes);
  const std::size_t share = kInputBytes / (2 * kLanes * static_cast<std::size_t>(ranks));
  shape.chunk = std::clamp(share / kCacheLine * kCacheLine, kLeastChunkBytes, kChunkBytes);
  shape.has_results = ranks <= kFewRanks;
  return shape;
}

// An area is followed by an empty line: were the areas a power of two apart, what ranks have at the
// same place would be in each other's way in the caches.
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
