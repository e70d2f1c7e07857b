#include "output/byte_queue.hpp"

#include <deque>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(ByteQueue, ReturnsAppendedBytesInOrder) {
  std::mt19937 random(7);
  ByteQueue queue;
  std::string expected;
  for (int step = 0; step < 3000; ++step) {
    const std::string piece(random() % 3000, static_cast<char>('a' + random() % 26));
    queue.append(piece);
    expected += piece;
    const std::size_t gone = random() % (expected.size() + 1);
    queue.drop(gone);
    expected.erase(0, gone);
    ASSERT_EQ(queue.view(), expected) << "step " << step;
  }
}

TEST(ByteQueue, IsUsableAfterAVeryLongPiece) {
  ByteQueue queue;
  const std::string large(5'000'000, 'x');
  queue.append("a");
  queue.append(large);
  EXPECT_EQ(queue.size(), large.size() + 1);
  queue.clear();
  EXPECT_TRUE(queue.empty());
  queue.append("again");
  EXPECT_EQ(queue.view(), "again");
}

}  // namespace
}  // namespace hvdrun
