// The file format: encoding and decoding, and what decoding must refuse.
#include "checkpoint/format.hpp"

#include "common/crc32c.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::checkpoint {
namespace {

Index make_index() {
  Index index;
  index.step = 1200;
  index.save = 7;
  index.writer = 0x1234;
  index.metric = 0.25;
  index.ranks = 2;
  index.parts = lay_out({{"w", HVD_FLOAT32, {3, 5}, 60},
                         {"empty", HVD_INT8, {0}, 0},
                         {"text", HVD_ITEM_BYTES, {}, 5000},
                         {"n", HVD_INT64, {}, 8}});
  index.blocks = cut(index.parts, 2);
  index.range = {0, index.blocks.count()};
  index.checksums = {1, 2};
  return index;
}

void expect_same(const Index& a, const Index& b) {
  EXPECT_EQ(encode_index(a), encode_index(b));
  EXPECT_EQ(a.parts, b.parts);
  EXPECT_EQ(a.checksums, b.checksums);
  EXPECT_EQ(a.metric, b.metric);
}

TEST(Format, PartsAreAlignedTo64Bytes) {
  const Index index = make_index();
  EXPECT_EQ(index.parts[1].offset, 64u);
  EXPECT_EQ(index.parts[2].offset, 64u);
  EXPECT_EQ(index.parts[3].offset, 5120u);
  EXPECT_EQ(index.blocks.data_bytes, 5128u);
  EXPECT_EQ(index.blocks.block_bytes, 4096u);
}

TEST(Format, SharesAreEvenAndComplete) {
  const std::vector<Part> parts = lay_out({{"w", HVD_INT8, {100'000'000}, 100'000'000}});
  for (std::uint64_t ranks = 1; ranks < 9; ++ranks) {
    const Blocks blocks = cut(parts, ranks);
    std::uint64_t next = 0;
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      const BlockRange share = share_of(blocks, rank, ranks);
      EXPECT_EQ(share.first, next);
      EXPECT_LE(blocks.bytes(share), 100'000'000 / ranks + blocks.block_bytes);
      next += share.count;
    }
    EXPECT_EQ(next, blocks.count());
  }
  EXPECT_EQ(cut({}, 3).count(), 0u);
}

TEST(Format, IndexesAreUnchangedByEncodingAndDecoding) {
  Index index = make_index();
  expect_same(*decode_index(encode_index(index)), index);
  index.metric.reset();
  expect_same(*decode_index(encode_index(index)), index);
  index.metric = std::nan("");
  EXPECT_TRUE(std::isnan(*decode_index(encode_index(index))->metric));
  Index manifest = make_index();
  manifest.kind = FileKind::manifest;
  manifest.part_files = {{0, 1}, {1, 0}, {1, 1}};
  expect_same(*decode_index(encode_index(manifest)), manifest);
  Index part = make_index();
  part.kind = FileKind::part;
  part.parts.clear();
  part.range = {1, 1};
  part.checksums = {9};
  expect_same(*decode_index(encode_index(part)), part);
}

TEST(Format, InvalidIndexesAreRefused) {
  const auto refused = [](auto change) {
    Index index = make_index();
    change(index);
    return !decode_index(encode_index(index)).ok();
  };
  EXPECT_TRUE(refused([](Index& index) { index.kind = FileKind{9}; }));
  EXPECT_TRUE(refused([](Index& index) { index.kind = FileKind::manifest; }));
  EXPECT_TRUE(refused([](Index& index) { index.kind = FileKind::part; }));
  EXPECT_TRUE(refused([](Index& index) { index.part_files = {{0, 2}}; }));
  EXPECT_TRUE(refused([](Index& index) { index.blocks.block_bytes = 0; }));
  EXPECT_TRUE(refused([](Index& index) { index.blocks.block_bytes = 4000; }));
  EXPECT_TRUE(refused([](Index& index) { index.blocks.data_bytes += 1; }));
  EXPECT_TRUE(refused([](Index& index) { index.checksums.pop_back(); }));
  EXPECT_TRUE(refused([](Index& index) { index.range.first = 1; }));
  EXPECT_TRUE(refused([](Index& index) { index.parts[0].offset = 8; }));
  EXPECT_TRUE(refused([](Index& index) { index.parts[0].description.bytes = 56; }));
  EXPECT_TRUE(refused([](Index& index) { index.parts[0].description.type = 77; }));
  EXPECT_TRUE(refused([](Index& index) { index.parts[0].description.name = ""; }));
  EXPECT_TRUE(refused([](Index& index) { index.parts[0].description.name = "n"; }));
  EXPECT_TRUE(refused([](Index& index) { index.parts[0].description.name.push_back('\0'); }));
  EXPECT_TRUE(refused([](Index& index) { index.parts[2].description.shape = {5000}; }));
  const std::string text = encode_index(make_index());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(decode_index(text.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(decode_index(text + "x").ok());
}

TEST(Format, InvalidHeadersAreRefusedWithTheReason) {
  auto header = encode_header();
  EXPECT_TRUE(check_header(header).ok());
  const auto why = [](std::span<const std::byte> bytes) {
    const Result<void> outcome = check_header(bytes);
    return outcome.ok() ? "" : outcome.error().message;
  };
  EXPECT_EQ(why(std::span(header).first(100)), "it is cut short");
  auto damaged = header;
  damaged[2000] ^= std::byte{1};
  EXPECT_EQ(why(damaged), "its header is damaged");
  auto newer = header;
  newer[8] = std::byte{2};
  const std::uint32_t sum = crc32c(0, newer.data(), newer.size() - 4);
  std::memcpy(newer.data() + newer.size() - 4, &sum, 4);
  EXPECT_EQ(why(newer), "it is of format version 2; this version of libhvd reads 1");
  header[0] = std::byte{0};
  EXPECT_EQ(why(header), "it is not a checkpoint");
}

TEST(Format, FootersMustMatchTheLengthOfTheFile) {
  const auto footer = encode_footer({FileKind::whole, 5000, 300, 0xabcd});
  const auto decoded = decode_footer(footer, 5000 + 300 + kFooterBytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->index_offset, 5000u);
  EXPECT_EQ(decoded->index_checksum, 0xabcdu);
  EXPECT_FALSE(decode_footer(footer, 5000 + 301 + kFooterBytes).ok());
  EXPECT_FALSE(decode_footer(encode_footer({FileKind::whole, 100, 300, 0}), 464).ok());
  for (std::size_t at = 0; at < footer.size(); ++at) {
    auto damaged = footer;
    damaged[at] ^= std::byte{0x10};
    EXPECT_FALSE(decode_footer(damaged, 5000 + 300 + kFooterBytes).ok()) << at;
  }
}

TEST(Format, DescriptionsAreUnchangedByEncodingAndDecoding) {
  const std::vector<Description> parts{{"a", HVD_FLOAT32, {2, 3}, 24},
                                       {"b", HVD_ITEM_BYTES, {}, 5}};
  const std::string text = encode_descriptions(parts);
  const auto back = decode_descriptions(text);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, parts);
  EXPECT_FALSE(decode_descriptions(text.substr(1)).ok());
}

}  // namespace
}  // namespace libhvd::checkpoint
