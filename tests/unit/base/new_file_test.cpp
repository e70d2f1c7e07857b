// Tests files that are written completely or not at all.
#include "base/new_file.hpp"

#include "../temporary_folder.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

auto entries(const TemporaryFolder& folder) {
  return std::distance(fs::directory_iterator(folder.path()), {});
}

TEST(NewFile, ReplacesAnEarlierFile) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "report";
  std::ofstream(file) << "earlier";
  auto made = NewFile::create(file, "cannot");
  ASSERT_TRUE(made);
  EXPECT_EQ(text_of(file), "earlier");
  ASSERT_TRUE(made->commit("later"));
  EXPECT_EQ(text_of(file), "later");
  EXPECT_EQ(entries(folder), 1);
}

TEST(NewFile, LeavesNoFileWithoutACommit) {
  const TemporaryFolder folder;
  ASSERT_TRUE(NewFile::create(folder.path() / "report", "cannot"));
  EXPECT_EQ(entries(folder), 0);
}

TEST(NewFile, FolderIsAnError) {
  const TemporaryFolder folder;
  const auto made = NewFile::create(folder.path(), "cannot write it", kExitUsage);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "cannot write it: Is a directory");
  EXPECT_EQ(made.error().exit_code, kExitUsage);
  EXPECT_EQ(entries(folder), 0);
}

TEST(NewFile, WritesToAFifoWithoutReplacingIt) {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "report";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  auto made = NewFile::create(pipe, "cannot");
  ASSERT_TRUE(made);
  EXPECT_FALSE(made->commit("report"));  // there is no reader
  const Fd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(made->commit("report"));
  char text[16]{};
  EXPECT_EQ(::read(reader.get(), text, sizeof text), 6);
  EXPECT_STREQ(text, "report");
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(entries(folder), 1);
}

// It replaces the link, not the link's target.
TEST(NewFile, DoesNotWriteThroughALink) {
  const TemporaryFolder folder;
  const fs::path precious = folder.path() / "precious";
  std::ofstream(precious) << "precious";
  fs::create_symlink(precious, folder.path() / "report");
  auto made = NewFile::create(folder.path() / "report", "cannot");
  ASSERT_TRUE(made && made->commit("report"));
  EXPECT_EQ(text_of(precious), "precious");
}

}  // namespace
}  // namespace hvdrun
