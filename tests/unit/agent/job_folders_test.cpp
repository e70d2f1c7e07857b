#include "agent/job_folders.hpp"

#include "base/system.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace hvdrun {
namespace {

TEST(JobFolders, ArePrivateAndRemovedWithTheirContents) {
  auto folders = JobFolders::of("test-" + random_hex(8), 3);
  ASSERT_TRUE(folders.create(true));
  struct stat status {};
  ASSERT_EQ(::stat(folders.shared.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  std::ofstream(folders.temporary / "file") << "x";
  std::filesystem::create_directories(folders.shared / "a" / "b");
  EXPECT_FALSE(folders.create(true)) << "an existing folder belongs to another job or user";
  folders.clean_up();
  EXPECT_FALSE(std::filesystem::exists(folders.temporary));
  EXPECT_FALSE(std::filesystem::exists(folders.shared));
  folders.clean_up();  // a second call is no error
}

TEST(JobFolders, HaveDifferentNamesIfTheTemporaryOneIsInSharedMemory) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/dev/shm", 1);
  auto folders = JobFolders::of("test-" + random_hex(8), 3);
  EXPECT_NE(folders.temporary, folders.shared);
  const auto created = folders.create(true);
  EXPECT_EQ(created ? *created : created.error().message, "");
  folders.clean_up();
  EXPECT_FALSE(std::filesystem::exists(folders.temporary));
  if (before == nullptr)
    ::unsetenv("TMPDIR");
  else
    ::setenv("TMPDIR", kept.c_str(), 1);
}

}  // namespace
}  // namespace hvdrun
