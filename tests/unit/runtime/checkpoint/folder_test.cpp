// Names of checkpoints, and folders that hold them.
#include "checkpoint/folder.hpp"

#include "support.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

thread_local std::vector<std::string> flushed;

}  // namespace

// Replaces libc's function in the whole test program, and records the path.
extern "C" int fsync(int fd) {
  std::error_code none;
  flushed.push_back(
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), none).string());
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace libhvd::checkpoint {
namespace {

using test::TemporaryFolder;

TEST(FileName, IsUnchangedByPrintingAndParsing) {
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  for (const FileName& name : {FileName{1200, 7}, FileName{0, 0}, FileName{largest, largest},
                               FileName{5, 6, true, 7, 8}, FileName{5, 6, true, largest, 123456}}) {
    EXPECT_EQ(FileName::parse(name.text()), name) << name.text();
  }
  EXPECT_EQ((FileName{1200, 7}.text()), "checkpoint-00000000000000001200.0000000007.hvd");
}

TEST(FileName, RefusesOtherNames) {
  for (const char* text :
       {"", "checkpoint-", "checkpoint-1.2.hvd", "checkpoint-00000000000000001200.hvd",
        "checkpoint-00000000000000001200.0000000007.hvd.bak",
        "xcheckpoint-00000000000000001200.0000000007.hvd",
        "checkpoint-99999999999999999999.0000000007.hvd",
        "checkpoint-000000000000000001200.0000000007.hvd",
        "checkpoint-00000000000000001200.0000000007.part-00001",
        "checkpoint-00000000000000001200.0000000007.00000000000000AB.part-00001",
        "checkpoint-0000000000000000-200.0000000007.hvd"}) {
    EXPECT_FALSE(FileName::parse(text)) << text;
  }
}

TEST(Folder, ListsTheNewestSaveFirstAmongTenThousandOtherFiles) {
  const TemporaryFolder folder;
  for (int i = 0; i < 10000; ++i) {
    std::ofstream(folder.file("checkpoint-") + std::to_string(i) + ".pt");
  }
  // The highest step is not the newest.
  for (const FileName& name : {FileName{900, 1}, FileName{100, 3}, FileName{500, 2}}) {
    std::ofstream(folder.file(name.text()));
  }
  const auto names = list_folder(folder.path());
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, (std::vector<FileName>{{100, 3}, {500, 2}, {900, 1}}));
}

// A crash of the machine must not remove the name of a new folder: its checkpoints would be lost.
TEST(Folder, NamesOfNewFoldersAreFlushedToTheDisk) {
  const TemporaryFolder folder;
  flushed.clear();
  ASSERT_TRUE(make_folders(folder.file("a/b/")).ok());
  EXPECT_EQ(flushed, (std::vector<std::string>{folder.path(), folder.file("a")}));
  flushed.clear();
  ASSERT_TRUE(make_folders(folder.file("a/b")).ok());
  EXPECT_EQ(flushed, std::vector<std::string>{}) << "nothing is new";
}

TEST(Folder, IsCreatedWithItsParents) {
  const TemporaryFolder folder;
  EXPECT_TRUE(make_folders(folder.file("a/b/c")).ok());
  EXPECT_TRUE(make_folders(folder.file("a/b/c/")).ok());
  EXPECT_TRUE(FolderIdentity::of(folder.file("a/b/c")).ok());
  std::ofstream(folder.file("file"));
  const Result<void> in_the_way = make_folders(folder.file("file"));
  ASSERT_FALSE(in_the_way.ok());
  EXPECT_NE(in_the_way.error().message.find("is not a folder"), std::string::npos);
  EXPECT_FALSE(make_folders(folder.file("file/below")).ok());
  EXPECT_FALSE(list_folder(folder.file("nothing")).ok());
}

}  // namespace
}  // namespace libhvd::checkpoint
