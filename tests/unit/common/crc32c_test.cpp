// Compares the checksum with RFC 3720, and the CPU's instruction with the tables.
#include "common/crc32c.hpp"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace common {
namespace {

std::vector<unsigned char> pseudorandom_bytes(std::size_t count) {
  std::vector<unsigned char> bytes(count);
  std::uint32_t state = 1;
  for (auto& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return bytes;
}

// The values are those of RFC 3720, appendix B.4, and of the catalogue of CRCs.
TEST(Crc32c, MatchesKnownValues) {
  EXPECT_EQ(crc32c(0, "123456789", 9), 0xe3069283u);
  const std::vector<unsigned char> zeros(32, 0);
  EXPECT_EQ(crc32c(0, zeros.data(), zeros.size()), 0x8a9136aau);
  const std::vector<unsigned char> ones(32, 0xff);
  EXPECT_EQ(crc32c(0, ones.data(), ones.size()), 0x62a8ab43u);
  std::vector<unsigned char> rising(32);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(crc32c(0, rising.data(), rising.size()), 0x46dd794eu);
  EXPECT_EQ(crc32c(0, nullptr, 0), 0u);
}

// Covers lengths around the limits of the fast path, at every alignment.
TEST(Crc32c, InstructionMatchesTheTables) {
  const auto bytes = pseudorandom_bytes(40000);
  for (const std::size_t length : {0, 1, 7, 8, 9, 63, 4095, 12287, 12288, 12289, 24576, 39000}) {
    for (std::size_t offset = 0; offset < 9; ++offset) {
      const unsigned char* const data = bytes.data() + offset;
      EXPECT_EQ(crc32c(123, data, length), crc32c_by_table(123, data, length))
          << length << " bytes from " << offset;
    }
  }
}

TEST(Crc32c, PiecesGiveTheChecksumOfTheWhole) {
  const auto bytes = pseudorandom_bytes(30000);
  const std::uint32_t whole = crc32c(0, bytes.data(), bytes.size());
  for (const std::size_t cut : {1, 100, 12288, 29999}) {
    const std::uint32_t first = crc32c(0, bytes.data(), cut);
    EXPECT_EQ(crc32c(first, bytes.data() + cut, bytes.size() - cut), whole);
  }
}

}  // namespace
}  // namespace common
