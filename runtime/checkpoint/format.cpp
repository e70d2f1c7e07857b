#include "checkpoint/format.hpp"

#include "checkpoint/bytes.hpp"
#include "common/crc32c.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_set>

namespace libhvd::checkpoint {
namespace {

// Like PNG's signature: a byte above 127 and both kinds of line ends show whether a transfer as
// text has changed the file.
constexpr std::string_view kMagic{"\x89HVD\r\n\x1a\n", 8};
constexpr std::string_view kEndMagic{"HVD END\n", 8};

constexpr std::uint64_t kLargestBlock = std::uint64_t{4} << 20;
constexpr std::uint64_t kBlockAlignment = 4096;  // see AtomicFile::kDirectAlignment
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint32_t checksum(std::string_view bytes) {
  return crc32c(0, bytes.data(), bytes.size());
}

// Returns the bytes as a structure of kSize bytes that ends with the checksum of the rest.
template <std::size_t kSize>
std::array<std::byte, kSize> seal(ByteWriter writer) {
  writer.zeros(kSize - sizeof(std::uint32_t) - writer.bytes().size());
  writer.number(checksum(writer.bytes()));
  std::array<std::byte, kSize> sealed{};
  std::memcpy(sealed.data(), writer.bytes().data(), kSize);
  return sealed;
}

// Returns whether a structure from seal() is undamaged.
bool seal_holds(std::string_view bytes) {
  const std::size_t length = bytes.size() - sizeof(std::uint32_t);
  return ByteReader(bytes.substr(length)).number<std::uint32_t>() ==
         checksum(bytes.substr(0, length));
}

Error malformed(std::string why) {
  return fail(HVD_ERROR_SYSTEM, std::move(why));
}

void write_description(ByteWriter& writer, const Description& part) {
  writer.text(part.name);
  writer.number(static_cast<std::int32_t>(part.type));
  writer.number(static_cast<std::uint32_t>(part.shape.size()));
  for (const std::int64_t length : part.shape) writer.number(length);
  writer.number(part.bytes);
}

constexpr std::uint64_t kSmallestDescription = 4 + 4 + 4 + 8;

Description read_description(ByteReader& reader) {
  Description part;
  part.name = reader.text();
  part.type = reader.number<std::int32_t>();
  const auto dimensions = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < dimensions && reader.ok(); ++i) {
    part.shape.push_back(reader.number<std::int64_t>());
  }
  part.bytes = reader.number<std::uint64_t>();
  return part;
}

bool is_valid(const Description& part) {
  if (part.name.empty() || part.name.size() > kLongestName) return false;
  if (part.name.find('\0') != std::string::npos) return false;
  if (part.bytes > kMostBytes || item_element_size(part.type) == 0) return false;
  if (part.type == HVD_ITEM_BYTES) return part.shape.empty();
  return part.shape.size() <= kMostDimensions &&
         bytes_of_shape(part.type, part.shape) == part.bytes;
}

void write_ranges(ByteWriter& writer, std::span<const BlockRange> ranges) {
  writer.number(static_cast<std::uint64_t>(ranges.size()));
  for (const BlockRange& range : ranges) {
    writer.number(range.first);
    writer.number(range.count);
  }
}

BlockRange read_range(ByteReader& reader) {
  const auto first = reader.number<std::uint64_t>();
  return {first, reader.number<std::uint64_t>()};
}

// Returns whether the parts have the offsets of lay_out() and different names.
bool are_parts_valid(const Index& index) {
  std::uint64_t end = 0;
  std::unordered_set<std::string_view> names;
  for (const Part& part : index.parts) {
    if (!is_valid(part.description) || part.offset != round_up(end, kPartAlignment) ||
        !names.insert(part.description.name).second) {
      return false;
    }
    end = part.offset + part.description.bytes;
    if (end > index.blocks.data_bytes) return false;
  }
  return index.kind == FileKind::part || end == index.blocks.data_bytes;
}

bool are_ranges_valid(const Index& index) {
  const std::uint64_t blocks = index.blocks.count();
  if (index.range.first > blocks || index.range.count > blocks - index.range.first) return false;
  if (index.checksums.size() != index.range.count) return false;
  if (index.kind != FileKind::part && index.range != BlockRange{0, blocks}) return false;
  if (index.kind != FileKind::manifest) return index.part_files.empty();
  std::uint64_t next = 0;
  for (const BlockRange& range : index.part_files) {
    if (range.first != next || range.count > blocks - next) return false;
    next += range.count;
  }
  return next == blocks;
}

bool is_valid(const Index& index) {
  const Blocks& blocks = index.blocks;
  if (index.kind < FileKind::whole || index.kind > FileKind::part) return false;
  if (blocks.data_bytes > kMostBytes || blocks.block_bytes == 0 ||
      blocks.block_bytes > kLargestBlock || blocks.block_bytes % kBlockAlignment != 0) {
    return false;
  }
  if (index.kind == FileKind::part && !index.parts.empty()) return false;
  return are_ranges_valid(index) && are_parts_valid(index);
}

}  // namespace

std::vector<Part> lay_out(std::vector<Description> descriptions) {
  std::vector<Part> parts;
  std::uint64_t end = 0;
  for (Description& description : descriptions) {
    const std::uint64_t offset = round_up(end, kPartAlignment);
    end = offset + description.bytes;
    parts.push_back({std::move(description), offset});
  }
  return parts;
}

Blocks cut(std::span<const Part> parts, std::uint64_t ranks) {
  Blocks blocks;
  if (!parts.empty()) blocks.data_bytes = parts.back().offset + parts.back().description.bytes;
  const std::uint64_t share = round_up(blocks.data_bytes / ranks, kBlockAlignment);
  blocks.block_bytes = std::clamp(share, kBlockAlignment, kLargestBlock);
  return blocks;
}

BlockRange share_of(const Blocks& blocks, std::uint64_t rank, std::uint64_t ranks) {
  const std::uint64_t first = blocks.count() * rank / ranks;
  return {first, blocks.count() * (rank + 1) / ranks - first};
}

std::array<std::byte, kHeaderBytes> encode_header() {
  ByteWriter writer;
  writer.raw(kMagic);
  writer.number(kFormatVersion);
  return seal<kHeaderBytes>(writer);
}

std::array<std::byte, kFooterBytes> encode_footer(const Footer& footer) {
  ByteWriter writer;
  writer.raw(kEndMagic);
  writer.number(kFormatVersion);
  writer.number(static_cast<std::uint32_t>(footer.kind));
  writer.number(footer.index_offset);
  writer.number(footer.index_bytes);
  writer.number(footer.index_checksum);
  return seal<kFooterBytes>(writer);
}

std::string encode_index(const Index& index) {
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(index.kind));
  writer.number(index.ranks);
  writer.number(index.step);
  writer.number(index.save);
  writer.number(index.writer);
  writer.number(static_cast<std::uint32_t>(index.metric.has_value()));
  writer.number(index.metric.value_or(0));
  writer.number(index.blocks.data_bytes);
  writer.number(index.blocks.block_bytes);
  writer.number(index.range.first);
  writer.number(static_cast<std::uint64_t>(index.checksums.size()));
  for (const std::uint32_t block : index.checksums) writer.number(block);
  write_ranges(writer, index.part_files);
  writer.number(static_cast<std::uint64_t>(index.parts.size()));
  for (const Part& part : index.parts) {
    write_description(writer, part.description);
    writer.number(part.offset);
  }
  return writer.bytes();
}

Result<void> check_header(std::span<const std::byte> header) {
  const std::string_view bytes = as_text(header);
  if (!bytes.starts_with(kMagic)) return malformed("it is not a checkpoint");
  if (bytes.size() < kHeaderBytes) return malformed("it is cut short");
  const auto version = ByteReader(bytes.substr(kMagic.size())).number<std::uint32_t>();
  if (!seal_holds(bytes.substr(0, kHeaderBytes))) return malformed("its header is damaged");
  if (version != kFormatVersion)
    return malformed("it is of format version " + std::to_string(version) +
                     "; this version of libhvd reads " + std::to_string(kFormatVersion));
  return {};
}

Result<Footer> decode_footer(std::span<const std::byte> footer, std::uint64_t file_bytes) {
  const std::string_view bytes = as_text(footer);
  if (bytes.size() != kFooterBytes || !bytes.starts_with(kEndMagic))
    return malformed("its end is missing: it was cut short");
  if (!seal_holds(bytes)) return malformed("its end is damaged");
  ByteReader reader(bytes.substr(kEndMagic.size()));
  if (reader.number<std::uint32_t>() != kFormatVersion)
    return malformed("its end is of another version");
  Footer decoded;
  decoded.kind = static_cast<FileKind>(reader.number<std::uint32_t>());
  decoded.index_offset = reader.number<std::uint64_t>();
  decoded.index_bytes = reader.number<std::uint64_t>();
  decoded.index_checksum = reader.number<std::uint32_t>();
  const std::uint64_t around = decoded.index_offset + kFooterBytes;
  if (decoded.index_offset < kHeaderBytes || around < decoded.index_offset || around > file_bytes ||
      decoded.index_bytes != file_bytes - around) {
    return malformed("its length is not what its end says");
  }
  return decoded;
}

Result<Index> decode_index(std::string_view bytes) {
  ByteReader reader(bytes);
  Index index;
  index.kind = static_cast<FileKind>(reader.number<std::uint32_t>());
  index.ranks = reader.number<std::uint32_t>();
  index.step = reader.number<std::uint64_t>();
  index.save = reader.number<std::uint64_t>();
  index.writer = reader.number<std::uint64_t>();
  const auto has_metric = reader.number<std::uint32_t>();
  const auto metric = reader.number<double>();
  if (has_metric == 1) index.metric = metric;
  index.blocks.data_bytes = reader.number<std::uint64_t>();
  index.blocks.block_bytes = reader.number<std::uint64_t>();
  index.range.first = reader.number<std::uint64_t>();
  index.range.count = reader.count(sizeof(std::uint32_t));
  for (std::uint64_t i = 0; i < index.range.count; ++i) {
    index.checksums.push_back(reader.number<std::uint32_t>());
  }
  const std::uint64_t files = reader.count(2 * sizeof(std::uint64_t));
  for (std::uint64_t i = 0; i < files; ++i) index.part_files.push_back(read_range(reader));
  const std::uint64_t parts = reader.count(kSmallestDescription + sizeof(std::uint64_t));
  for (std::uint64_t i = 0; i < parts && reader.ok(); ++i) {
    Part part{read_description(reader), 0};
    part.offset = reader.number<std::uint64_t>();
    index.parts.push_back(std::move(part));
  }
  const bool plain =
      has_metric == 1 || (has_metric == 0 && std::bit_cast<std::uint64_t>(metric) == 0);
  if (!reader.at_end() || !plain || !is_valid(index)) return malformed("its index makes no sense");
  return index;
}

std::string encode_descriptions(std::span<const Description> descriptions) {
  ByteWriter writer;
  writer.number(static_cast<std::uint64_t>(descriptions.size()));
  for (const Description& part : descriptions) write_description(writer, part);
  return writer.bytes();
}

Result<std::vector<Description>> decode_descriptions(std::string_view bytes) {
  ByteReader reader(bytes);
  std::vector<Description> descriptions;
  const std::uint64_t count = reader.count(kSmallestDescription);
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    descriptions.push_back(read_description(reader));
  }
  if (!reader.at_end()) return malformed("a list of items makes no sense");
  return descriptions;
}

}  // namespace libhvd::checkpoint
