#include "channels/text_lines.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(TextLines, AreCompleteHoweverTheyArrive) {
  std::vector<std::string> lines;
  TextLines text([&](std::string line) { lines.push_back(std::move(line)); });
  text.add("one\r\ntw");
  text.add("o\n\nthree");
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two"}));
  text.end();
  text.end();
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_EQ(text.beginning(), "one\r\ntwo\n\nthree");
}

TEST(TextLines, HaveALimitedLength) {
  std::size_t longest = 0;
  TextLines text([&](const std::string& line) { longest = std::max(longest, line.size()); });
  for (int i = 0; i < 100; ++i) text.add(std::string(1000, 'x'));
  text.end();
  EXPECT_EQ(longest, 16u << 10);
  EXPECT_EQ(text.beginning().size(), 16u << 10);
}

}  // namespace
}  // namespace hvdrun
