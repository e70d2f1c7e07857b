// The format of checkpoint files as bytes; docs/reference/formats/checkpoint.md specifies it. Pure
// functions and values, for any thread. Errors have messages that follow "skipped FILE: ".
//
//   header   4096 bytes: magic, version, checksum of itself; the rest is zero
//   data     the parts one after the other, each on a multiple of 64 bytes, in blocks of equal size
//            (the last may be shorter)
//   index    what the checkpoint is, its parts, a checksum for each block
//   footer   64 bytes: where the index is, its length and checksum, checksum of itself
//
// A state that several ranks have written has its data in part files, each with some of the blocks,
// and a manifest without data. All three kinds have header, index and footer. Little-endian.
#pragma once

#include "base/error.hpp"
#include "checkpoint/item.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace libhvd::checkpoint {

static_assert(std::endian::native == std::endian::little,
              "numbers and tensors are written as they are in memory");

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kFooterBytes = 64;
inline constexpr std::uint64_t kPartAlignment = 64;

enum class FileKind : std::uint32_t { whole = 1, manifest = 2, part = 3 };

// Consecutive blocks.
struct BlockRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  bool operator==(const BlockRange&) const = default;
};

// How the data of a state is cut into blocks.
struct Blocks {
  std::uint64_t data_bytes = 0;  // of all parts, with the gaps between them
  std::uint64_t block_bytes = 0;

  std::uint64_t count() const {
    return block_bytes == 0 ? 0 : (data_bytes + block_bytes - 1) / block_bytes;
  }
  std::uint64_t begin(std::uint64_t block) const { return block * block_bytes; }
  std::uint64_t length(std::uint64_t block) const {
    return std::min(block_bytes, data_bytes - begin(block));
  }
  // Returns the number of bytes in a range.
  std::uint64_t bytes(const BlockRange& range) const {
    if (range.count == 0) return 0;
    return std::min(data_bytes, begin(range.first + range.count)) - begin(range.first);
  }
  bool operator==(const Blocks&) const = default;
};

struct Part {
  Description description;
  std::uint64_t offset = 0;  // in the data

  bool operator==(const Part&) const = default;
};

struct Index {
  FileKind kind = FileKind::whole;
  std::uint64_t step = 0;
  std::uint64_t save = 0;    // number of the save in the folder, from 1
  std::uint64_t writer = 0;  // a random number of the job that wrote it
  std::optional<double> metric;
  std::uint32_t ranks = 1;  // in the job that wrote it
  Blocks blocks;
  BlockRange range;                      // the blocks that this file holds; manifest: all
  std::vector<std::uint32_t> checksums;  // of the blocks in `range`
  std::vector<BlockRange> part_files;    // manifest: the blocks of each part file, in order
  std::vector<Part> parts;               // empty in a part file
};

struct Footer {
  FileKind kind = FileKind::whole;
  std::uint64_t index_offset = 0;
  std::uint64_t index_bytes = 0;
  std::uint32_t index_checksum = 0;
};

// Returns the parts with their offsets in the data, each a multiple of kPartAlignment.
std::vector<Part> lay_out(std::vector<Description> descriptions);

// Returns the length of the data of these parts, and the size of a block: 4 KiB … 4 MiB, and so
// small that each of `ranks` ranks gets blocks if there is enough data.
Blocks cut(std::span<const Part> parts, std::uint64_t ranks);

// Returns the blocks that one of `ranks` ranks writes.
BlockRange share_of(const Blocks& blocks, std::uint64_t rank, std::uint64_t ranks);

std::array<std::byte, kHeaderBytes> encode_header();
std::string encode_index(const Index& index);
std::array<std::byte, kFooterBytes> encode_footer(const Footer& footer);

// Checks the first bytes of a file, kHeaderBytes or fewer. Errors: not a checkpoint, cut short,
// damaged, or of another version.
Result<void> check_header(std::span<const std::byte> header);
// Reads the last kFooterBytes bytes of a file of `file_bytes` bytes. Error: cut short, damaged, or
// the footer contradicts the length.
Result<Footer> decode_footer(std::span<const std::byte> footer, std::uint64_t file_bytes);
// Reads an index from any bytes. decode_index(encode_index(x)) is x. Error: the index contradicts
// itself.
Result<Index> decode_index(std::string_view bytes);

// Converts the parts of a state to bytes for another rank, and back. Error: malformed bytes.
std::string encode_descriptions(std::span<const Description> descriptions);
Result<std::vector<Description>> decode_descriptions(std::string_view bytes);

}  // namespace libhvd::checkpoint
