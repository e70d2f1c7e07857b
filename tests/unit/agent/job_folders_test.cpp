#include "agent/job_folders.hpp"

#include "base/system.hpp"

#include <filesystem>
#include <fstream>

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

}  // namespace
}  // namespace hvdrun
