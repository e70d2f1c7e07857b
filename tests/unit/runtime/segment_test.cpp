#include "transport/segment.hpp"

#include "support.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace libhvd {
namespace {

TEST(Segment, IsAFileOfOursUntilItsNameIsRemoved) {
  const test::TemporaryFolder folder;
  {
    auto segment = Segment::create(folder.path(), "j1", 2);
    ASSERT_TRUE(segment.ok()) << segment.error().message;
    struct stat status {};
    ASSERT_EQ(::stat(segment->name().path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    auto other = Segment::open(segment->name(), 2);
    ASSERT_TRUE(other.ok()) << other.error().message;
    segment->remove_name();
    EXPECT_TRUE(folder.entries().empty());
    segment->block(1).pid = 42;
    EXPECT_EQ(other->block(1).pid, 42u);
  }
  // And one whose name nobody removed.
  { EXPECT_TRUE(Segment::create(folder.path(), "j1", 2).ok()); }
  EXPECT_TRUE(folder.entries().empty());
}

TEST(Segment, OfAnotherJobOrHostIsNotTakenForOurs) {
  const test::TemporaryFolder folder;
  auto segment = Segment::create(folder.path(), "j1", 2);
  ASSERT_TRUE(segment.ok());
  SegmentName wrong_nonce = segment->name();
  wrong_nonce.nonce[3] ^= 1;
  const auto refused = [](const Result<Segment>& opened) {
    return !opened.ok() && opened.error().status == HVD_ERROR_UNSUPPORTED;
  };
  EXPECT_TRUE(refused(Segment::open(wrong_nonce, 2)));
  EXPECT_TRUE(refused(Segment::open(segment->name(), 3)));
  EXPECT_TRUE(refused(Segment::open({folder.path() + "/none", {}}, 2)));
}

TEST(Segment, WithoutRoomSaysHowMuchIsNeeded) {
  const test::TemporaryFolder folder;
  test::Child child([&](const test::Child::Tell& tell) {
    // Stands for a full file system: no file of more than 64 KiB.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{65536, 65536};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto segment = Segment::create(folder.path(), "j1", 8);
    tell(segment.ok() ? "success" : segment.error().message);
  });
  const std::string message = child.line().value_or("");
  EXPECT_NE(message.find(folder.path() + " has no room for"), std::string::npos) << message;
  EXPECT_NE(message.find("KiB, which 8 ranks need"), std::string::npos) << message;
  EXPECT_TRUE(folder.entries().empty());
}

TEST(Segment, InAFolderThatIsNotThereSaysSo) {
  const auto segment = Segment::create("/nonexistent", "j1", 2);
  ASSERT_FALSE(segment.ok());
  EXPECT_NE(segment.error().message.find("No such file or directory"), std::string::npos);
}

}  // namespace
}  // namespace libhvd
