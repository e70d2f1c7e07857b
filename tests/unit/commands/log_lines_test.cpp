#include "commands/log_lines.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> texts(const std::vector<LogLine>& lines) {
  std::vector<std::string> all;
  for (const auto& line : lines) all.push_back(labelled(line, 2));
  return all;
}

TEST(LogLines, JoinsTheChunksOfALineOfEachRankAndStream) {
  LogLines lines;
  EXPECT_THAT(lines.add({1, 0, 0, false, true, "lo"}), IsEmpty());
  EXPECT_THAT(texts(lines.add({2, 0, 1, false, true, "of rank 1\n"})),
              ElementsAre("[1] of rank 1"));
  EXPECT_THAT(texts(lines.add({3, 0, 0, true, true, "error\n"})), ElementsAre("[0] error"));
  EXPECT_THAT(texts(lines.add({4, 1, 0, false, false, "ss\n\nend"})),
              ElementsAre("[0] loss", "[0] "));
  EXPECT_THAT(texts(lines.unfinished()), ElementsAre("[0] end"));
}

TEST(LogLines, LeavesOutALineWhoseBeginningIsNotKnown) {
  LogLines lines;
  EXPECT_THAT(lines.add({5, 4, 0, false, false, "no"}), IsEmpty());
  EXPECT_THAT(lines.unfinished(), IsEmpty());
  EXPECT_THAT(texts(lines.add({6, 5, 0, false, false, "thing\nwhole\n"})),
              ElementsAre("[0] whole"));
}

TEST(LogLines, DoesNotJoinLinesOverChunksThatWereNotSeen) {
  LogLines lines;
  EXPECT_THAT(lines.add({1, 0, 0, false, true, "first half"}), IsEmpty());
  EXPECT_THAT(texts(lines.add({9, 8, 0, false, false, " of another\nnext\nla"})),
              ElementsAre("[0] next"));
  EXPECT_THAT(texts(lines.add({10, 9, 0, false, false, "st\n"})), ElementsAre("[0] last"));
  EXPECT_THAT(lines.add({11, 10, 0, false, true, "lost"}), IsEmpty());
  EXPECT_THAT(texts(lines.add({20, 19, 0, false, true, "whole\n"})), ElementsAre("[0] whole"));
}

TEST(LogLines, AnotherAttemptEndsALine) {
  LogLines lines;
  EXPECT_THAT(lines.add({1, 0, 0, false, true, "unfinished"}), IsEmpty());
  EXPECT_THAT(texts(lines.add({2, 1, 0, false, true, "again\n"})),
              ElementsAre("[0] unfinished", "[0] again"));
}

TEST(LogLines, OfALineThatOverwritesItselfTheLastTextIsShown) {
  LogLines lines;
  EXPECT_THAT(texts(lines.add({1, 0, 0, false, true, " 10 %\r100 %\r\n"})),
              ElementsAre("[0] 100 %"));
  EXPECT_THAT(lines.add({2, 1, 0, false, true, " 10 %\r 20 %"}), IsEmpty());
  EXPECT_THAT(texts(lines.unfinished()), ElementsAre("[0]  20 %"));
}

TEST(LogLines, GivesTheLastOfEachRank) {
  EXPECT_THAT(texts(last_of_each({{0, "a"}, {0, "b"}, {1, "c"}, {0, "d"}}, 2)),
              ElementsAre("[0] b", "[1] c", "[0] d"));
  EXPECT_EQ(labelled({3, "x"}, 11), "[3]  x");
  EXPECT_EQ(labelled({0, "x"}, 1), "x");
}

TEST(LogLines, MalformedChunksAreLeftOut) {
  const auto answer = ControlJson::parse(
      R"({"chunks": [{"number": "1"}, 3, {"number": 2, "follows": 1, "rank": 0, "stderr": false, "begins_line": true, "text": "x"}]})");
  const auto chunks = log_chunks_from(answer);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].bytes, "x");
  EXPECT_THAT(log_chunks_from(ControlJson::object()), IsEmpty());
}

}  // namespace
}  // namespace hvdrun
