#include "transport/segment.hpp"

#include "collective/hosts_allreduce.hpp"
#include "support.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace libhvd {
namespace {

TEST(Segment, IsAPrivateFileUntilItsNameIsRemoved) {
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
  // The destructor removes a name that is left.
  { EXPECT_TRUE(Segment::create(folder.path(), "j1", 2).ok()); }
  EXPECT_TRUE(folder.entries().empty());
}

TEST(Segment, OfAnotherJobOrSizeIsRefused) {
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
  EXPECT_TRUE(refused(Segment::open({folder.file("none"), {}}, 2)));
}

TEST(Segment, WithoutRoomFailsWithTheSizeThatIsNeeded) {
  const test::TemporaryFolder folder;
  test::Child child([&](const test::Child::Report& report) {
    // Simulates a full file system: no file may have more than 64 KiB.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{65536, 65536};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto segment = Segment::create(folder.path(), "j1", 8);
    report(segment.ok() ? "success" : segment.error().message);
  });
  const std::string message = child.line().value_or("");
  EXPECT_NE(message.find(folder.path().string() + " has no room for"), std::string::npos)
      << message;
  EXPECT_NE(message.find("KiB, which 8 ranks need"), std::string::npos) << message;
  EXPECT_TRUE(folder.entries().empty());
}

TEST(Segment, FailsInAMissingFolder) {
  const auto segment = Segment::create("/nonexistent", "j1", 2);
  ASSERT_FALSE(segment.ok());
  EXPECT_NE(segment.error().message.find("No such file or directory"), std::string::npos);
}

// With any page size, mapped parts begin at a page, and no two parts overlap.
TEST(SegmentLayout, PartsAreAlignedAndSeparateForEveryPageSize) {
  for (const std::size_t page : {4096u, 16384u, 65536u}) {
    for (const int ranks : {1, 2, 3, 64, 65, 1025, 4096}) {
      for (const int lanes : {1, 2}) {
        for (const SegmentShape& shape :
             {SegmentShape(ranks, lanes), SegmentShape::across_hosts(ranks, lanes)}) {
          const SegmentLayout layout(shape, page);
          const std::string what = std::to_string(ranks) + " ranks, " + std::to_string(lanes) +
                                   " lanes, pages of " + std::to_string(page);
          EXPECT_EQ(layout.bytes() % page, 0u) << what;
          ASSERT_EQ(layout.blocks(), ranks * lanes);
          const int last = layout.blocks() - 1;
          EXPECT_GE(layout.block(0), sizeof(SegmentHeader)) << what;
          EXPECT_EQ(layout.block(last) % alignof(RankBlock), 0u) << what;
          EXPECT_EQ(layout.has_posts(), ranks <= 64) << what;
          std::size_t end = layout.block(last) + sizeof(RankBlock);
          if (layout.has_posts()) {
            EXPECT_GE(layout.post(last, 0), end) << what;
            EXPECT_EQ(layout.post(last, 0) % alignof(PostSlot), 0u) << what;
            end = layout.post(last, kPosts - 1) + sizeof(PostSlot);
            EXPECT_LE(end, layout.block(last + 1)) << what;
          }
          for (const std::uint32_t parity : {0u, 1u}) {
            EXPECT_GE(layout.input(0, parity), end) << what;
            EXPECT_EQ(layout.input(last, parity) % kCacheLine, 0u) << what;
            end = layout.input(last, parity) + shape.chunk;
            EXPECT_LE(layout.input(last - last % ranks, parity) + layout.wide_bytes(),
                      layout.bytes());
          }
          for (const std::uint32_t parity : {0u, 1u}) {
            if (!shape.has_results) continue;
            EXPECT_GE(layout.result(0, parity), end) << what;
            end = layout.result(last, parity) + shape.chunk;
          }
          EXPECT_GE(layout.bytes(), end) << what;
        }
      }
    }
  }
}

// The memory that is allocated on a host with 64 of 4,096 ranks.
TEST(Segment, OfALargeJobTakesLittleMemoryOnAHost) {
  constexpr int kRanks = 4096;
  constexpr int kOnAHost = 64;
  const test::TemporaryFolder folder;
  auto segment = Segment::create(folder.path(), "j1", SegmentShape::across_hosts(kRanks));
  ASSERT_TRUE(segment.ok()) << segment.error().message;
  ASSERT_TRUE(segment->add_staging(HostsAllreduce::staging_bytes(kOnAHost, kOnAHost)).ok());
  struct stat status {};
  ASSERT_EQ(::stat(segment->name().path.c_str(), &status), 0);
  const auto allocated = static_cast<std::size_t>(status.st_blocks) * 512;
  RecordProperty("bytes", std::to_string(allocated));
  EXPECT_GT(allocated, segment->layout().bytes());
  EXPECT_LE(allocated, 64'000'000u);
  const auto few = SegmentLayout(SegmentShape::across_hosts(8)).shape();
  EXPECT_EQ(few.chunk, kChunkBytes) << "small jobs have chunks of full size";
}

// The last rank of a large job has the same place in the creator's segment and in an opened one.
TEST(Segment, OfALargeJobHasTheSameLayoutWhenItIsOpened) {
  const test::TemporaryFolder folder;
  auto segment = Segment::create(folder.path(), "j1", SegmentShape::across_hosts(2000, 1));
  ASSERT_TRUE(segment.ok()) << segment.error().message;
  auto other = Segment::open(segment->name(), 2000);
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(other->lanes(), 1);
  EXPECT_EQ(other->layout().shape().chunk, segment->layout().shape().chunk);
  segment->area(1999, 1).input[0] = std::byte{7};
  segment->area(1999, 1).header.bytes[3] = std::byte{8};
  EXPECT_EQ(other->area(1999, 1).input[0], std::byte{7});
  EXPECT_EQ(other->area(1999, 1).header.bytes[3], std::byte{8});
  EXPECT_EQ(other->number(1999), 1999);
}

}  // namespace
}  // namespace libhvd
