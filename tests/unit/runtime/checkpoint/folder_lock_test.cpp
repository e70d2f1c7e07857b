// The lock of a folder, which refuses a second job.
#include "checkpoint/folder_lock.hpp"

#include "support.hpp"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace libhvd::checkpoint {
namespace {

using libhvd::test::Child;
using libhvd::test::TemporaryFolder;

std::string try_in_child(const std::string& folder) {
  Child child([&](const Child::Report& report) {
    report(FolderLock::take(folder, "other").ok() ? "locked" : "refused");
  });
  return child.line().value_or("");
}

TEST(FolderLock, RefusesAnotherProcessAndNamesTheOwner) {
  const TemporaryFolder folder;
  Child child([&](const Child::Report& report) {
    const auto lock = FolderLock::take(folder.path(), "job 42 (host n1, pid 7)");
    report(lock.ok() && lock->holds() ? "locked" : "failed");
    ::pause();
  });
  ASSERT_EQ(child.line(), "locked");
  const auto refused = FolderLock::take(folder.path(), "me");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("in use by job 42 (host n1, pid 7)"), std::string::npos)
      << refused.error().message;
  child.kill();
  child.wait();
  EXPECT_TRUE(FolderLock::take(folder.path(), "me").ok()) << "the lock of a killed owner is free";
}

TEST(FolderLock, RefusesTheSameProcess) {
  const TemporaryFolder folder;
  {
    const auto first = FolderLock::take(folder.path(), "first");
    ASSERT_TRUE(first.ok());
    const auto second = FolderLock::take(folder.file("."), "second");
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find("this same process"), std::string::npos);
    // The refused attempt must not release the first lock.
    EXPECT_EQ(try_in_child(folder.path()), "refused");
  }
  EXPECT_TRUE(FolderLock::take(folder.path(), "third").ok());
}

// A backup or an upload of the folder reads the file, too.
TEST(FolderLock, SurvivesAReaderOfItsFile) {
  const TemporaryFolder folder;
  const auto lock = FolderLock::take(folder.path(), "first");
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(lock_owner(folder.path()), "first");
  EXPECT_EQ(try_in_child(folder.path()), "refused");
}

TEST(FolderLock, IsNotKeptByAForkedChild) {
  const TemporaryFolder folder;
  auto lock = FolderLock::take(folder.path(), "first");
  ASSERT_TRUE(lock.ok());
  Child child([&](const Child::Report& report) {
    report(lock->holds() ? "holds" : "holds nothing");
    ::pause();
  });
  ASSERT_EQ(child.line(), "holds nothing");
  EXPECT_EQ(try_in_child(folder.path()), "refused");
  *lock = FolderLock();
  EXPECT_EQ(try_in_child(folder.path()), "locked");
}

TEST(FolderLock, DoesNotFollowASymbolicLink) {
  const TemporaryFolder folder;
  const std::string precious = folder.file("precious");
  std::ofstream(precious) << "precious";
  ASSERT_EQ(::symlink("precious", folder.file(kLockName).c_str()), 0);
  const auto lock = FolderLock::take(folder.path(), "me");
  EXPECT_FALSE(lock.ok());
  std::string kept;
  std::ifstream(precious) >> kept;
  EXPECT_EQ(kept, "precious");
}

TEST(FolderLock, NeedsAWritableFolder) {
  EXPECT_FALSE(FolderLock::take("/nonexistent", "me").ok());
  EXPECT_FALSE(FolderLock::take("/proc/self", "me").ok());
}

}  // namespace
}  // namespace libhvd::checkpoint
