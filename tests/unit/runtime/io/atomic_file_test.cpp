// AtomicFile: readers see the complete file or none.
#include "io/atomic_file.hpp"

#include "support.hpp"

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace libhvd {
namespace {

using test::TemporaryFolder;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(AtomicFile, ReadersSeeTheOldFileUntilTheCommit) {
  const TemporaryFolder folder;
  const std::string path = folder.file("out");
  std::ofstream(path) << "old";
  auto file = AtomicFile::create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("new", 3).ok());
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(folder.entries().size(), 2u);
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(content(path), "new");
  EXPECT_EQ(folder.entries(), std::vector<std::string>{"out"});
}

TEST(AtomicFile, DestructionWithoutCommitLeavesNoFile) {
  const TemporaryFolder folder;
  {
    auto file = AtomicFile::create(folder.file("out"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("new", 3).ok());
    const AtomicFile moved = std::move(*file);
    EXPECT_EQ(moved.size(), 3u);
  }
  EXPECT_TRUE(folder.entries().empty());
}

// Writes aligned pieces, then one of an odd length, and then one at an unaligned offset.
TEST(AtomicFile, DirectWritesGiveTheSameBytes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("out");
  constexpr std::size_t kPiece = std::size_t{12} << 20;
  const std::unique_ptr<char, void (*)(void*)> piece(
      static_cast<char*>(std::aligned_alloc(AtomicFile::kDirectAlignment, kPiece)), std::free);
  for (std::size_t i = 0; i < kPiece; ++i) piece.get()[i] = static_cast<char>(i * 7 / 3);
  std::string expected;
  auto file = AtomicFile::create(path, {.kind = "checkpoint", .direct = true});
  ASSERT_TRUE(file.ok());
  for (const std::size_t length : {kPiece, std::size_t{4096}, std::size_t{5}, kPiece}) {
    ASSERT_TRUE(file->write(piece.get(), length).ok());
    expected.append(piece.get(), length);
  }
  ASSERT_TRUE(file->commit().ok());
  EXPECT_TRUE(content(path) == expected);
}

TEST(AtomicFile, CreationInAMissingFolderFailsWithTheReason) {
  const auto missing = AtomicFile::create("/nonexistent/out");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("/nonexistent/out: No such file"), std::string::npos);
}

TEST(AtomicFile, CommitOntoAFolderFailsAndKeepsTheFolder) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkdir((folder.file("out")).c_str(), 0700), 0);
  auto file = AtomicFile::create(folder.file("out"));
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->commit().ok());
  EXPECT_FALSE(file->commit().ok()) << "a second commit";
  EXPECT_EQ(folder.entries(), std::vector<std::string>{"out"});
}

TEST(AtomicFile, LeftoversOfDeadWritersAreRemoved) {
  const TemporaryFolder folder;
  const auto path = folder.file("out");
  test::Child child([&](const test::Child::Report& report) {
    auto file = AtomicFile::create(path);
    report(file.ok() ? "written" : "failed");
    ::pause();
  });
  ASSERT_EQ(child.line(), "written");
  auto mine = AtomicFile::create(path);
  ASSERT_TRUE(mine.ok());
  remove_temporary_files(folder.path(), "file", false);
  EXPECT_EQ(folder.entries().size(), 2u) << "both writers live";
  child.kill();
  child.wait();
  remove_temporary_files(folder.path(), "other", true);
  EXPECT_EQ(folder.entries().size(), 2u) << "of another kind";
  remove_temporary_files(folder.path(), "file", false);
  EXPECT_EQ(folder.entries().size(), 1u);
  ASSERT_TRUE(mine->commit().ok());
  EXPECT_EQ(folder.entries(), std::vector<std::string>{"out"});
}

TEST(AtomicFile, FolderOfReturnsTheParentFolder) {
  EXPECT_EQ(folder_of("out"), ".");
  EXPECT_EQ(folder_of("/out"), "/");
  EXPECT_EQ(folder_of("a/b/out"), "a/b");
}

}  // namespace
}  // namespace libhvd
