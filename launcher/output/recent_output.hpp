// What ranks have printed last, for `hvdrun logs`. Cheap: bytes are copied as they come, without a
// look for lines. Bounded: each rank has its share, so that one that prints much does not push out
// the others' lines.
//
// A plain value for the loop thread; nothing fails.
#pragma once

#include "output/stream.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct OutputChunk {
  std::uint64_t number = 0;   // ascending, over all ranks, from 1
  std::uint64_t follows = 0;  // the number of the bytes before it, of its rank and stream; 0: none
  int rank = 0;
  Stream stream = Stream::out;
  OutputTime time;
  bool begins_line = false;  // it follows a newline, or nothing
  std::string bytes;
};

class RecentOutput {
 public:
  static constexpr std::size_t kAllRanks = 1u << 20;  // bytes
  static constexpr std::size_t kMostOfRank = 256u << 10;
  static constexpr std::size_t kLeastOfRank = 4u << 10;

  // An attempt begins with so many ranks. Keeps what is there; lines end there.
  void begin(int ranks);
  // Makes room for so many ranks: some have joined.
  void grow(int ranks);

  void add(int rank, Stream stream, std::string_view bytes, OutputTime time);

  // Returns the chunks after that number, oldest first: as many as have `most` bytes together, and
  // at least one if there is one. They are valid until the next add().
  std::vector<const OutputChunk*> after(std::uint64_t number, std::size_t most) const;

 private:
  struct Rank {
    std::deque<OutputChunk> chunks;
    std::size_t bytes = 0;
    struct {
      std::uint64_t last = 0;  // chunk
      bool in_line = false;    // its last byte was no newline
    } streams[2];
  };

  std::vector<Rank> ranks_;
  std::size_t share_ = kMostOfRank;
  std::uint64_t last_ = 0;
};

}  // namespace hvdrun
