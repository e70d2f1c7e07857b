#include "output/recent_output.hpp"

#include <string>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr std::size_t kAll = 1u << 30;

std::string bytes_of(const RecentOutput& recent, std::uint64_t after = 0) {
  std::string text;
  for (const auto* chunk : recent.after(after, kAll)) text += chunk->bytes;
  return text;
}

TEST(RecentOutput, GivesChunksInTheirOrderOverAllRanks) {
  RecentOutput recent;
  recent.begin(2);
  recent.add(1, Stream::out, "a\n", {});
  recent.add(0, Stream::err, "b\n", {});
  recent.add(1, Stream::out, "c\n", {});
  recent.add(2, Stream::out, "of no rank\n", {});
  EXPECT_EQ(bytes_of(recent), "a\nb\nc\n");
  EXPECT_EQ(bytes_of(recent, 1), "b\nc\n");
  EXPECT_EQ(bytes_of(recent, 3), "");
  EXPECT_EQ(recent.after(0, kAll)[2]->follows, 1u);
}

TEST(RecentOutput, ARankThatPrintsMuchKeepsItsShareAndLeavesTheOthersTheirs) {
  RecentOutput recent;
  recent.begin(2);
  recent.add(0, Stream::out, "quiet\n", {});
  for (int i = 0; i < 1000; ++i) recent.add(1, Stream::out, std::string(1000, 'x'), {});
  const auto text = bytes_of(recent);
  EXPECT_TRUE(text.starts_with("quiet\n"));
  EXPECT_LE(text.size(), RecentOutput::kMostOfRank + 6);
  EXPECT_GT(text.size(), RecentOutput::kMostOfRank - 1000);
  // What follows the chunk that is gone shows in what follows the one before.
  const auto chunks = recent.after(1, kAll);
  EXPECT_EQ(chunks.front()->follows, chunks.front()->number - 1);
}

TEST(RecentOutput, OfOneLargeChunkTheEndIsKept) {
  RecentOutput recent;
  recent.begin(1);
  recent.add(0, Stream::out, "begun ", {});
  recent.add(0, Stream::out,
             std::string(10, 'x') + "\n" + std::string(RecentOutput::kMostOfRank, 'y'), {});
  const auto chunks = recent.after(0, kAll);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0]->bytes, std::string(RecentOutput::kMostOfRank, 'y'));
  EXPECT_TRUE(chunks[0]->begins_line);
  EXPECT_EQ(chunks[0]->follows, 0u);
}

TEST(RecentOutput, AChunkBeginsALineAfterANewlineOfItsStreamAndInANewAttempt) {
  RecentOutput recent;
  recent.begin(1);
  recent.add(0, Stream::out, "half", {});
  recent.add(0, Stream::err, "other\n", {});
  recent.add(0, Stream::out, " and half\n", {});
  recent.add(0, Stream::out, "unfinished", {});
  recent.begin(1);
  recent.add(0, Stream::out, "next attempt\n", {});
  std::vector<bool> begins;
  for (const auto* chunk : recent.after(0, kAll)) begins.push_back(chunk->begins_line);
  EXPECT_EQ(begins, (std::vector<bool>{true, true, false, true, true}));
}

TEST(RecentOutput, AnAnswerHasAtMostSoManyBytesAndAtLeastOneChunk) {
  RecentOutput recent;
  recent.begin(1);
  for (const char* text : {"aaaa", "bbbb", "cccc"}) recent.add(0, Stream::out, text, {});
  EXPECT_EQ(recent.after(0, 8).size(), 2u);
  EXPECT_EQ(recent.after(0, 9).size(), 2u);
  EXPECT_EQ(recent.after(0, 1).size(), 1u);
  EXPECT_EQ(recent.after(2, 1).size(), 1u);
  EXPECT_TRUE(recent.after(3, 1).empty());
}

}  // namespace
}  // namespace hvdrun
