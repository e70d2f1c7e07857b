// Numbers and texts as bytes, little-endian, and back with a check at each.
#pragma once

#include "base/result.hpp"
#include "checkpoint/item.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace libhvd::checkpoint {

class ByteWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void number(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }
  // Its length before it.
  void text(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  void zeros(std::size_t count) { bytes_.append(count, '\0'); }
  void raw(std::string_view bytes) { bytes_ += bytes; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Past the end it gives zeros and is not ok().
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  requires std::is_arithmetic_v<T> T number() {
    T value{};
    const std::string_view bytes = raw(sizeof value);
    if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view text() { return raw(number<std::uint32_t>()); }
  std::string_view raw(std::size_t count) {
    if (count > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  // How many things of at least `size` bytes each can still come; a larger count is not ok().
  std::uint64_t count(std::uint64_t size) {
    const auto count = number<std::uint64_t>();
    if (count > rest_.size() / size) ok_ = false;
    return ok_ ? count : 0;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// The format of checkpoint files, as bytes; docs/checkpoints.md has it for readers. Pure functions.
//
//   header   4096 bytes: magic, version, checksum of itself; the rest is zero
//   data     the parts one after the other, each on a multiple of 64 bytes, in blocks of equal size
//            (the last may be shorter)
//   index    what the checkpoint is, its parts, a checksum a block
//   footer   64 bytes: where the index is and its checksum, the file's length, checksum of itself
//
// A state that several ranks have written has its data in part files, each with some of the blocks,
// and a manifest without data. All three kinds have header, index and footer. Little-endian.

static_assert(std::endian::native == std::endian::little,
              "numbers and tensors are written as they lie in memory");

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kFooterBytes = 64;
inline constexpr std::uint64_t kPartAlignment = 64;

enum class FileKind : std::uint32_t { whole = 1, manifest = 2, part = 3 };

// A run of blocks, and for a manifest the file that has it.
struct BlockRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  bool operator==(const BlockRange&) const = default;
};

// How a state's data is cut.
struct Blocks {
  std::uint64_t data_bytes = 0;  // of all parts, with what lies between them
  std::uint64_t block_bytes = 0;

  std::uint64_t count() const {
    return block_bytes == 0 ? 0 : (data_bytes + block_bytes - 1) / block_bytes;
  }
  std::uint64_t begin(std::uint64_t block) const { return block * block_bytes; }
  std::uint64_t length(std::uint64_t block) const {
    return std::min(block_bytes, data_bytes - begin(block));
  }
  // The bytes from a range's begin to its end.
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
  std::uint64_t save = 0;    // how many saves there were in the folder before, plus one
  std::uint64_t writer = 0;  // a random number of the job that wrote it
  std::optional<double> metric;
  std::uint32_t ranks = 1;  // in the job that wrote it
  Blocks blocks;
  BlockRange range;                      // of the blocks, those that this file holds; manifest: all
  std::vector<std::uint32_t> checksums;  // of the blocks in `range`
  std::vector<BlockRange> part_files;    // manifest: what each part file has, in order
  std::vector<Part> parts;               // not in a part file
};

struct Footer {
  FileKind kind = FileKind::whole;
  std::uint64_t index_offset = 0;
  std::uint64_t index_bytes = 0;
  std::uint32_t index_checksum = 0;
};

// Where parts with these bytes lie, each offset a multiple of kPartAlignment.
std::vector<Part> lay_out(std::vector<Description> descriptions);

// The data's length for such parts; blocks of at most 4 MiB, so small that each of `ranks` has
// some.
Blocks cut(std::span<const Part> parts, std::uint64_t ranks);

// The blocks that one of `ranks` ranks writes.
BlockRange share_of(const Blocks& blocks, std::uint64_t rank, std::uint64_t ranks);

std::array<std::byte, kHeaderBytes> encode_header();
std::string encode_index(const Index& index);
std::array<std::byte, kFooterBytes> encode_footer(const Footer& footer);

// Errors say what is wrong in words that go after "skipped FILE: ".
Result<void> check_header(std::span<const std::byte> header);
// `file_bytes`: the file's length, which the footer must agree with.
Result<Footer> decode_footer(std::span<const std::byte> footer, std::uint64_t file_bytes);
// Any bytes: what comes back is consistent in itself. decode(encode(x)) is x.
Result<Index> decode_index(std::string_view bytes);

// The parts of a state as text for another rank, and back.
std::string encode_descriptions(std::span<const Description> descriptions);
Result<std::vector<Description>> decode_descriptions(std::string_view bytes);

}  // namespace libhvd::checkpoint
