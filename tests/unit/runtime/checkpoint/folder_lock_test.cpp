// Two jobs on one folder.
#include "checkpoint/folder_lock.hpp"

#include "support.hpp"

#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace libhvd::checkpoint {
namespace {

using test::Child;
using test::TemporaryFolder;

TEST(FolderLock, AnotherProcessIsRefusedAndToldWhoHasIt) {
  const TemporaryFolder folder;
  Child child([&](const Child::Tell& tell) {
    const auto lock = FolderLock::take(folder.path(), "job 42 (host n1, pid 7)");
    tell(lock.ok() && lock->holds() ? "locked" : "failed");
    ::pause();
  });
  ASSERT_EQ(child.line(), "locked");
  const auto refused = FolderLock::take(folder.path(), "me");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("in use by job 42 (host n1, pid 7)"), std::string::npos)
      << refused.error().message;
  child.kill();
  child.wait();
  EXPECT_TRUE(FolderLock::take(folder.path(), "me").ok()) << "a killed owner owns nothing";
}

TEST(FolderLock, TheSameProcessIsRefusedToo) {
  const TemporaryFolder folder;
  {
    const auto first = FolderLock::take(folder.path(), "first");
    ASSERT_TRUE(first.ok());
    const auto second = FolderLock::take(folder.path() + "/.", "second");
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find("this same process"), std::string::npos);
    // The refused attempt must not have cost the first its lock.
    Child child([&](const Child::Tell& tell) {
      tell(FolderLock::take(folder.path(), "other").ok() ? "locked" : "refused");
    });
    EXPECT_EQ(child.line(), "refused");
  }
  EXPECT_TRUE(FolderLock::take(folder.path(), "third").ok());
}

TEST(FolderLock, NeedsAFolderThatCanBeWritten) {
  EXPECT_FALSE(FolderLock::take("/nonexistent", "me").ok());
  EXPECT_FALSE(FolderLock::take("/proc/self", "me").ok());
}

}  // namespace
}  // namespace libhvd::checkpoint
