#include "slurm/output_tail.hpp"

#include "../temporary_folder.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using News = OutputTail::News;

class OutputTailTest : public testing::Test {
 protected:
  std::string path() const { return folder_.path() / "out.txt"; }
  void write(const std::string& text, std::ios::openmode mode = std::ios::app) const {
    std::ofstream(path(), mode) << text;
  }
  static std::string bytes(OutputTail& tail, std::size_t most = 1000) {
    return tail.look(most).bytes;
  }

  TemporaryFolder folder_;
};

TEST_F(OutputTailTest, ReadsWrittenTextOnce) {
  OutputTail tail(path());
  EXPECT_EQ(tail.look(10).news, News::none);
  EXPECT_FALSE(tail.has_appeared());
  write("one\n");
  const auto look = tail.look(10);
  EXPECT_EQ(look.news, News::appeared);
  EXPECT_EQ(look.bytes, "one\n");
  EXPECT_TRUE(look.at_end);
  EXPECT_EQ(bytes(tail), "");
  write("two");
  EXPECT_EQ(bytes(tail), "two");
}

TEST_F(OutputTailTest, ReadsAtMostTheRequestedBytes) {
  write("0123456789");
  OutputTail tail(path());
  const auto look = tail.look(4);
  EXPECT_EQ(look.bytes, "0123");
  EXPECT_FALSE(look.at_end);
  EXPECT_EQ(bytes(tail, 4), "4567");
  EXPECT_EQ(bytes(tail, 4), "89");
}

TEST_F(OutputTailTest, StartsAgainWhenTheFileIsTruncated) {
  write("a long text\n");
  OutputTail tail(path());
  bytes(tail);
  write("short\n", std::ios::trunc);
  const auto look = tail.look(1000);
  EXPECT_EQ(look.news, News::shortened);
  EXPECT_EQ(look.bytes, "short\n");
}

TEST_F(OutputTailTest, ContinuesWithTheFileThatReplacedIt) {
  write("one\n");
  OutputTail tail(path());
  bytes(tail);
  write("last\n");
  std::filesystem::rename(path(), path() + ".1");
  write("new and longer\n");
  const auto look = tail.look(1000);
  EXPECT_EQ(look.news, News::replaced);
  EXPECT_EQ(look.bytes, "last\n") << "the rest of the first file";
  EXPECT_FALSE(look.at_end);
  EXPECT_EQ(bytes(tail), "new and longer\n");
}

TEST_F(OutputTailTest, KeepsReadingARemovedFile) {
  write("one\n");
  OutputTail tail(path());
  bytes(tail);
  std::ofstream writer(path(), std::ios::app);
  std::filesystem::remove(path());
  EXPECT_EQ(tail.look(1000).news, News::removed);
  EXPECT_EQ(tail.look(1000).news, News::none) << "reported once";
  writer << "two\n" << std::flush;
  EXPECT_EQ(bytes(tail), "two\n");
  write("new file\n");
  EXPECT_EQ(tail.look(1000).news, News::replaced);
  EXPECT_EQ(bytes(tail), "new file\n");
  std::filesystem::remove(path());
  EXPECT_EQ(tail.look(1000).news, News::removed);
}

TEST_F(OutputTailTest, SkipsTheOutputOfAnEarlierJob) {
  write("old\n");
  OutputTail tail(path(), mark_of(path()));
  EXPECT_EQ(bytes(tail), "");
  EXPECT_FALSE(tail.has_appeared());
  write("new\n", std::ios::trunc);
  EXPECT_EQ(bytes(tail), "new\n");
}

TEST_F(OutputTailTest, RefusesAFifo) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  OutputTail tail(path());
  EXPECT_EQ(tail.look(10).news, News::no_access);
  EXPECT_EQ(tail.look(10).news, News::none) << "reported once";
  EXPECT_EQ(tail.access_error(), "it is no regular file");
  EXPECT_FALSE(tail.has_appeared());
}

TEST_F(OutputTailTest, MissingFolderIsNoNewsAndALinkLoopIsNoAccess) {
  OutputTail tail(folder_.path() / "no" / "folder");
  EXPECT_EQ(tail.look(10).news, News::none);
  OutputTail loop(folder_.path() / "loop");
  std::filesystem::create_symlink("loop", folder_.path() / "loop");
  EXPECT_EQ(loop.look(10).news, News::no_access);
}

}  // namespace
}  // namespace hvdrun
