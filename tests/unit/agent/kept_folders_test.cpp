#include "agent/kept_folders.hpp"

#include "base/system.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace hvdrun {
namespace {

class KeptFoldersTest : public testing::Test {
 protected:
  ~KeptFoldersTest() override { folders.clean_up(); }

  EventLoop loop;
  std::vector<std::string> warnings;
  KeptFolders folders{loop, JobFolders::of("test-" + random_hex(8), 3),
                      [this](const std::string& text) { warnings.push_back(text); }};
};

TEST_F(KeptFoldersTest, ARemovedFolderIsMadeAgainAndSaidOnce) {
  ASSERT_TRUE(folders.create(true));
  int restored = 0;
  folders.watch([&]() -> Result<bool> {
    ++restored;
    return false;
  });
  folders.restore();
  EXPECT_TRUE(warnings.empty());
  for (int time = 0; time < 2; ++time) {
    std::filesystem::remove_all(folders.paths().shared);
    folders.restore();
    struct stat status {};
    ASSERT_EQ(::stat(folders.paths().shared.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U);
  }
  EXPECT_EQ(restored, 3);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("was made again"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("loginctl enable-linger"), std::string::npos) << warnings[0];
}

TEST_F(KeptFoldersTest, AnEmptiedFolderIsSaid) {
  ASSERT_TRUE(folders.create(false));
  folders.watch([]() -> Result<bool> { return true; });
  folders.restore();
  EXPECT_EQ(warnings.size(), 1U);
}

TEST_F(KeptFoldersTest, WhatCannotBeMadeAgainIsSaid) {
  ASSERT_TRUE(folders.create(false));
  folders.watch([]() -> Result<bool> { return fail("cannot listen there"); });
  folders.restore();
  folders.restore();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("cannot listen there"), std::string::npos) << warnings[0];
}

TEST_F(KeptFoldersTest, AFolderThatOthersMayEnterIsNotUsed) {
  ASSERT_TRUE(folders.create(false));
  folders.watch([]() -> Result<bool> { return false; });
  std::filesystem::remove(folders.paths().shared);
  ASSERT_EQ(::mkdir(folders.paths().shared.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(folders.paths().shared.c_str(), 0755), 0);
  folders.restore();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("cannot be made again"), std::string::npos) << warnings[0];
}

// systemd-tmpfiles takes this lock before it looks into a folder of /tmp, and leaves it alone else.
TEST_F(KeptFoldersTest, BothFoldersAreLocked) {
  ASSERT_TRUE(folders.create(true));
  for (const auto& path : {folders.paths().shared, folders.paths().temporary}) {
    const Fd other(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(other);
    EXPECT_NE(::flock(other.get(), LOCK_EX | LOCK_NB), 0) << path;
  }
}

}  // namespace
}  // namespace hvdrun
