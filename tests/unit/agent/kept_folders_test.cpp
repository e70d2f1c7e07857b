#include "agent/kept_folders.hpp"

#include "base/system.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace hvdrun {
namespace {

class KeptFoldersTest : public testing::Test {
 protected:
  ~KeptFoldersTest() override { folders_.clean_up(); }

  EventLoop loop_;
  std::vector<std::string> warnings_;
  KeptFolders folders_{loop_, JobFolders::of("test-" + random_hex(8), 3),
                       [this](const std::string& text) { warnings_.push_back(text); }};
};

TEST_F(KeptFoldersTest, ARemovedFolderIsMadeAgainAndSaidOnce) {
  ASSERT_TRUE(folders_.create(true));
  int restored = 0;
  folders_.watch([&]() -> Result<bool> {
    ++restored;
    return false;
  });
  folders_.restore();
  EXPECT_TRUE(warnings_.empty());
  for (int time = 0; time < 2; ++time) {
    std::filesystem::remove_all(folders_.paths().shared);
    folders_.restore();
    struct stat status {};
    ASSERT_EQ(::stat(folders_.paths().shared.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U);
  }
  EXPECT_EQ(restored, 3);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("was made again"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[0].find("loginctl enable-linger"), std::string::npos) << warnings_[0];
}

TEST_F(KeptFoldersTest, TheRemovalIsNoticedEachTime) {
  ASSERT_TRUE(folders_.create(false));
  int restored = 0;
  const auto make_file = [&] {
    std::ofstream(folders_.paths().shared / "status") << "x";
    ++restored;
    loop_.stop();
    return Result<bool>(true);
  };
  ASSERT_TRUE(make_file());
  folders_.watch(make_file);
  for (int time = 0; time < 2; ++time) {
    std::filesystem::remove_all(folders_.paths().shared);
    loop_.run();
    EXPECT_TRUE(std::filesystem::exists(folders_.paths().shared / "status"));
  }
  EXPECT_EQ(restored, 3);
}

TEST_F(KeptFoldersTest, AnEmptiedFolderIsSaid) {
  ASSERT_TRUE(folders_.create(false));
  folders_.watch([]() -> Result<bool> { return true; });
  folders_.restore();
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(KeptFoldersTest, WhatCannotBeMadeAgainIsSaid) {
  ASSERT_TRUE(folders_.create(false));
  folders_.watch([]() -> Result<bool> { return fail("cannot listen there"); });
  folders_.restore();
  folders_.restore();
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("cannot listen there"), std::string::npos) << warnings_[0];
}

TEST_F(KeptFoldersTest, AFolderThatOthersMayEnterIsNotUsed) {
  ASSERT_TRUE(folders_.create(false));
  folders_.watch([]() -> Result<bool> { return false; });
  std::filesystem::remove(folders_.paths().shared);
  ASSERT_EQ(::mkdir(folders_.paths().shared.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(folders_.paths().shared.c_str(), 0755), 0);
  folders_.restore();
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("cannot be made again"), std::string::npos) << warnings_[0];
}

// systemd-tmpfiles takes this lock before it looks into a folder of /tmp, and leaves it alone else.
TEST_F(KeptFoldersTest, BothFoldersAreLocked) {
  ASSERT_TRUE(folders_.create(true));
  for (const auto& path : {folders_.paths().shared, folders_.paths().temporary}) {
    const Fd other(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(other);
    EXPECT_NE(::flock(other.get(), LOCK_EX | LOCK_NB), 0) << path;
  }
}

}  // namespace
}  // namespace hvdrun
