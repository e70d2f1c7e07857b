// The tables of lines of each version of CPython, and its layouts.
#include "look/python_code.hpp"

#include <array>
#include <cstring>

#include <gmock/gmock.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using Table = std::vector<std::uint8_t>;

std::uint8_t less(int lines) {
  return static_cast<std::uint8_t>(static_cast<std::int8_t>(-lines));
}

TEST(PythonLine, FollowsTheStepsOf39) {
  const Table table{0, 1, 6, 1, 50, 100, 4, less(2)};
  EXPECT_EQ(python_line(9, table, 10, 0), 11);
  EXPECT_EQ(python_line(9, table, 10, 5), 11);
  EXPECT_EQ(python_line(9, table, 10, 6), 12);
  EXPECT_EQ(python_line(9, table, 10, 56), 112);
  EXPECT_EQ(python_line(9, table, 10, 1000), 110);
  EXPECT_EQ(python_line(9, table, 10, -1), 10);
}

TEST(PythonLine, FollowsTheRangesOf310) {
  const Table table{4, 1, 6, 128, 2, 3};  // 128 is -128: no line
  EXPECT_EQ(python_line(10, table, 10, 0), 11);
  EXPECT_EQ(python_line(10, table, 10, 4), 0);
  EXPECT_EQ(python_line(10, table, 10, 10), 14);
}

TEST(PythonLine, FollowsTheLocationsOf311) {
  const Table table{
      0x80 | (11 << 3) | 1, 0x00, 0x00,                    // two instructions, one line more
      0x80 | (3 << 3) | 0,  0x12,                          // one on the same line
      0x80 | (13 << 3) | 0, 0x05,                          // two lines less
      0x80 | (15 << 3) | 0,                                // none
      0x80 | (14 << 3) | 0, 0x42, 0x02, 0x00, 0x00, 0x00,  // 65 lines more, in two parts
  };
  EXPECT_EQ(python_line(11, table, 10, 0), 11);
  EXPECT_EQ(python_line(11, table, 10, 2), 11);
  EXPECT_EQ(python_line(11, table, 10, 4), 11);
  EXPECT_EQ(python_line(12, table, 10, 6), 9);
  EXPECT_EQ(python_line(13, table, 10, 8), 0);
  EXPECT_EQ(python_line(14, table, 10, 10), 9 + 65);
  EXPECT_EQ(python_line(14, table, 10, 1000), 0);
}

TEST(PythonLine, StaysWithinADamagedTable) {
  for (const int minor : {9, 10, 11, 12, 13, 14})
    for (std::size_t size = 0; size < 6; ++size)
      for (const std::uint8_t byte : {0x00, 0x7f, 0x80, 0xf7, 0xff})
        python_line(minor, Table(size, byte), 1, 1 << 20);
}

TEST(PythonLayout, IsKnownFrom39To312) {
  for (const int minor : {9, 10, 11, 12}) {
    const auto layout = known_python_layout(minor);
    ASSERT_TRUE(layout);
    EXPECT_EQ(layout->minor, minor);
  }
  EXPECT_FALSE(known_python_layout(8));
  EXPECT_FALSE(known_python_layout(13));
}

std::array<std::uint64_t, 160> offsets_of(int minor) {
  std::array<std::uint64_t, 160> numbers{};
  std::memcpy(numbers.data(), kPythonCookie.data(), kPythonCookie.size());
  numbers[1] = 0x03000000U | static_cast<std::uint64_t>(minor) << 16U;
  for (std::size_t index = 3; index < numbers.size(); ++index) numbers[index] = index;
  return numbers;
}

TEST(PythonLayout, IsReadFromTheInterpreter) {
  const Memory memory(::getpid());
  auto numbers = offsets_of(13);
  const auto at = reinterpret_cast<Address>(numbers.data());
  auto layout = read_python_layout(memory, at);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->thread_frame, 23U);
  EXPECT_EQ(layout->frame_owner, 33U);
  EXPECT_EQ(layout->code_start, 43U);
  EXPECT_EQ(layout->text_ascii_size, 70U);
  numbers = offsets_of(14);
  layout = read_python_layout(memory, at);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->thread_frame, 26U);
  EXPECT_EQ(layout->frame_owner, 36U);
  EXPECT_EQ(layout->code_start, 48U);
  EXPECT_EQ(layout->text_ascii_size, 80U);
}

TEST(PythonLayout, IsRefusedIfItIsDamaged) {
  const Memory memory(::getpid());
  auto numbers = offsets_of(13);
  const auto at = reinterpret_cast<Address>(numbers.data());
  numbers[23] = ~0ULL;
  EXPECT_FALSE(read_python_layout(memory, at));
  numbers = offsets_of(12);
  EXPECT_FALSE(read_python_layout(memory, at));
  numbers[0] = 0;
  EXPECT_FALSE(read_python_layout(memory, at));
  EXPECT_FALSE(read_python_layout(memory, 8));
}

}  // namespace
}  // namespace hvdrun
