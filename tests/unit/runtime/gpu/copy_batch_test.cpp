// The source of the kernel in copy_batch.cu, compiled for the CPU: one thread is all threads of all
// blocks, one after the other, because they do not wait for each other.
#include "builtins.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

using cuda_on_threads::words_copied;

#include "gpu/copy_batch.cu"

namespace libhvd::test {
namespace {

constexpr std::size_t kRoom = 64;  // around the copied bytes
constexpr std::size_t kMostBytes = 3 * kCopyBytesPerBlock + 5;

struct alignas(16) Line {
  unsigned char bytes[16];
};

// Memory for so many bytes, with room around them. Its address is a multiple of 16.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : lines_((bytes + 2 * kRoom) / 16 + 1) {}
  static Memory filled() {
    Memory memory(kMostBytes);
    for (std::size_t i = 0; i < memory.size(); ++i)
      memory.at(i) = static_cast<unsigned char>(1 + i % 251);
    return memory;
  }
  unsigned char& at(std::size_t i) { return lines_[i / 16].bytes[i % 16]; }
  std::size_t size() const { return lines_.size() * 16; }

 private:
  std::vector<Line> lines_;
};

void launch(const std::vector<DeviceCopy>& copies) {
  CopyBatch batch{};
  std::size_t longest = 0;
  for (const DeviceCopy& copy : copies) {
    batch.copies[batch.count++] = copy;
    longest = std::max(longest, copy.bytes);
  }
  const auto blocks =
      static_cast<unsigned>((longest + kCopyBytesPerBlock - 1) / kCopyBytesPerBlock);
  for (blockIdx.y = 0; blockIdx.y < static_cast<unsigned>(batch.count); ++blockIdx.y) {
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
      for (threadIdx.x = 0; threadIdx.x < kCopyThreads; ++threadIdx.x)
        kernels::hvd_copy_batch(batch);
    }
  }
}

// Returns the size of the largest words that can be copied between such addresses.
std::size_t widest_word(std::size_t to, std::size_t from) {
  std::size_t word = 16;
  while ((to | from) % word != 0) word /= 2;
  return word;
}

// Copies `bytes` bytes between addresses that are `from` and `to` modulo 16. Expects the bytes
// there, nothing beside them, and words as wide as the addresses allow.
void expect_copied(Memory& source, std::size_t to, std::size_t from, std::size_t bytes) {
  SCOPED_TRACE(testing::Message() << bytes << " bytes from " << from << " to " << to);
  Memory target(bytes);
  words_copied = {};
  launch({{&target.at(kRoom + to), &source.at(kRoom + from), bytes}});
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const bool inside = i >= kRoom + to && i < kRoom + to + bytes;
    wrong += target.at(i) != (inside ? source.at(i - to + from) : 0);
  }
  EXPECT_EQ(wrong, 0);
  for (const std::size_t word : {1U, 2U, 4U, 8U, 16U}) {
    const std::size_t loads_and_stores = word == widest_word(to, from) ? bytes / word * 2 : 0;
    EXPECT_EQ(words_copied[word], loads_and_stores) << word;
  }
}

TEST(CopyBatch, CopiesBetweenAllAlignments) {
  Memory source = Memory::filled();
  for (std::size_t to = 0; to < 16; ++to) {
    for (std::size_t from = 0; from < 16; ++from) {
      for (const std::size_t bytes : {0U, 1U, 15U, 16U, 33U, 1030U})
        expect_copied(source, to, from, bytes);
    }
  }
}

// Each thread copies up to four words at once.
TEST(CopyBatch, CopiesLengthsAroundTheLimitsOfItsLoops) {
  Memory source = Memory::filled();
  for (const std::size_t word : {1U, 2U, 4U, 8U, 16U}) {
    for (const std::size_t row : {1U, 2U, 3U, 4U, 5U, 8U}) {
      const std::size_t edge = row * kCopyThreads * word;
      for (const std::size_t bytes : {edge - word, edge - 1, edge, edge + 1, edge + word})
        expect_copied(source, word % 16, 0, bytes);
    }
    for (const std::size_t bytes :
         {kCopyBytesPerBlock - 1, kCopyBytesPerBlock, kCopyBytesPerBlock + 1, kMostBytes})
      expect_copied(source, 0, word % 16, bytes);
  }
}

TEST(CopyBatch, CopiesDifferentLengthsInOneBatch) {
  Memory source = Memory::filled(), target(kMostBytes), expected(kMostBytes);
  std::vector<DeviceCopy> copies;
  std::size_t begin = 0;
  for (const std::size_t bytes :
       {std::size_t{3}, kCopyBytesPerBlock + 9, std::size_t{0}, std::size_t{2048}}) {
    copies.push_back({&target.at(begin), &source.at(begin + 2), bytes});
    for (std::size_t i = 0; i < bytes; ++i) expected.at(begin + i) = source.at(begin + 2 + i);
    begin += bytes + 1;
  }
  launch(copies);
  for (std::size_t i = 0; i < target.size(); ++i) ASSERT_EQ(target.at(i), expected.at(i)) << i;
}

}  // namespace
}  // namespace libhvd::test
