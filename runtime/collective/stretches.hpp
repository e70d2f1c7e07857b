// How an allreduce between hosts divides its data: into stretches, one after the other; a stretch
// into slices, one for each channel; a slice into pieces, one for each host. A value, the same on
// all ranks. All lengths and positions are in elements. Two channels and three hosts:
//
//   data       |         stretch 0         |         stretch 1         | stretch 2 |
//              |                           |
//   stretch 0  |   channel 0 |   channel 1 |   two slices
//              |             |             |
//   slices     | h0 | h1 | h2| h0 | h1 | h2|   six pieces: host h reduces the pieces "h"
#pragma once

#include <algorithm>
#include <cstddef>

namespace libhvd {

// Most bytes of a stretch, as partial results. What a host works on at a time stays in caches.
inline constexpr std::size_t kMostStretchBytes = 512 * 1024;

class Stretches {
 public:
  struct Range {
    std::size_t begin;
    std::size_t count;
  };

  // `element`: bytes of one element's partial result. `most_bytes`: of a stretch.
  Stretches(std::size_t count, std::size_t element, int channels, int hosts,
            std::size_t most_bytes = kMostStretchBytes)
      : count_(count),
        hosts_(static_cast<std::size_t>(hosts)),
        pieces_(static_cast<std::size_t>(channels) * hosts_) {
    const std::size_t most = most_bytes / element;
    const std::size_t wanted = std::max(count / kWanted, kLeastStretchBytes / element);
    length_ = std::min(most, std::max<std::size_t>(1, wanted));
  }

  std::size_t most_in_piece() const { return piece_of(length_); }
  std::size_t most_in_slice() const { return std::min(length_, hosts_ * piece_of(length_)); }

  int count() const { return static_cast<int>((count_ + length_ - 1) / length_); }

  Range stretch(int index) const {
    const std::size_t begin = static_cast<std::size_t>(index) * length_;
    return {begin, std::min(length_, count_ - begin)};
  }
  Range slice(int index, int channel) const {
    return pieces(index, static_cast<std::size_t>(channel) * hosts_, hosts_);
  }
  Range piece(int index, int channel, int host) const {
    return pieces(index,
                  static_cast<std::size_t>(channel) * hosts_ + static_cast<std::size_t>(host), 1);
  }

 private:
  // Enough stretches for the parts of the work to overlap, but none so small that it costs more
  // than it saves.
  static constexpr std::size_t kWanted = 4;
  static constexpr std::size_t kLeastStretchBytes = 256 * 1024;
  static constexpr std::size_t kUnit = 64;  // a piece begins in a cache line of its own

  // Returns the length of the pieces of a stretch of this length.
  std::size_t piece_of(std::size_t length) const {
    const std::size_t even = (length + pieces_ - 1) / pieces_;
    return (even + kUnit - 1) / kUnit * kUnit;
  }

  Range pieces(int index, std::size_t first, std::size_t count) const {
    const auto [begin, length] = stretch(index);
    const std::size_t size = piece_of(length);
    const std::size_t from = std::min(length, first * size);
    return {begin + from, std::min(length - from, count * size)};
  }

  std::size_t count_;
  std::size_t hosts_;
  std::size_t pieces_;  // of a stretch
  std::size_t length_;  // of a stretch
};

}  // namespace libhvd
