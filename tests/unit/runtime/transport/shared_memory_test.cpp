// Memory that other ranks can map, and the allreduce that uses it.
#include "transport/shared_memory.hpp"

#include "collective/communicator.hpp"
#include "support.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace libhvd {
namespace {

std::shared_ptr<Segment> segment() {
  auto made = Segment::anonymous(2);
  EXPECT_TRUE(made.ok());
  return std::make_shared<Segment>(std::move(*made));
}

// The memory of a rank.
SharedMemory memory_in(const std::shared_ptr<Segment>& segment,
                       std::size_t most_mapped = SharedMemory::kMostMapped) {
  return {segment, std::make_shared<ProcessMemory>(), most_mapped};
}

std::byte* allocate(const SharedMemory& memory, const std::shared_ptr<Segment>& segment,
                    std::size_t bytes) {
  const auto allocated = memory.own()->allocate(segment, bytes);
  EXPECT_TRUE(allocated.ok()) << allocated.error().message;
  return *allocated;
}

bool is_same_place(const SharedLocation& one, const SharedLocation& other) {
  return one.file == other.file && one.allocation == other.allocation;
}

TEST(SharedMemory, IsMappedByAnotherRank) {
  const auto shared = segment();
  SharedMemory mine = memory_in(shared), theirs = memory_in(shared);
  std::byte* const buffer = allocate(mine, shared, 10'000);
  std::memset(buffer + 5000, 'x', 3);
  const auto place = mine.find(buffer + 5000, 3);
  ASSERT_TRUE(place);
  const auto seen = theirs.map(*place);
  ASSERT_TRUE(seen.ok());
  EXPECT_NE(seen->get(), buffer + 5000);
  EXPECT_EQ(std::memcmp(seen->get(), "xxx", 3), 0);
  std::memset(seen->get(), 'y', 3);
  EXPECT_EQ(std::memcmp(buffer + 5000, "yyy", 3), 0);
}

TEST(SharedMemory, OutlivesTheSegment) {
  const auto own = std::make_shared<ProcessMemory>();
  auto first = segment();
  std::byte* const buffer = *own->allocate(first, 10'000);
  std::memset(buffer, 'x', 3);
  first.reset();
  const auto second = segment();
  const auto place = SharedMemory(second, own).find(buffer, 3);
  ASSERT_TRUE(place);
  SharedMemory theirs = memory_in(second);
  const auto seen = theirs.map(*place);
  ASSERT_TRUE(seen.ok()) << seen.error().message;
  std::memset(seen->get(), 'y', 3);
  EXPECT_EQ(std::memcmp(buffer, "yyy", 3), 0);
}

// Where the pid of a rank is that of another process, this number is another file there, or none.
TEST(SharedMemory, AFileOfAnotherProcessIsNotMapped) {
  const auto shared = segment();
  const SharedMemory mine = memory_in(shared);
  SharedMemory theirs = memory_in(shared);
  auto place = *mine.find(allocate(mine, shared, 4096), 1);
  ++place.file;
  EXPECT_FALSE(theirs.map(place).ok());
  --place.file;
  ++place.descriptor;
  EXPECT_FALSE(theirs.map(place).ok());
  --place.descriptor;
  EXPECT_TRUE(theirs.map(place).ok());
}

// Ranks cannot if each has its own pid namespace.
TEST(SharedMemory, IsInTheSegmentIfRanksCannotOpenEachOthersFiles) {
  const test::TemporaryFolder folder;
  auto made = Segment::create(folder.path(), "j1", 2);
  ASSERT_TRUE(made.ok()) << made.error().message;
  ::unlink((made->name().path + ".memory").c_str());
  auto opened = Segment::open(made->name(), 2);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto one = std::make_shared<Segment>(std::move(*made));
  const SharedMemory mine = memory_in(one);
  SharedMemory theirs = memory_in(std::make_shared<Segment>(std::move(*opened)));
  std::byte* const buffer = allocate(mine, one, 10'000);
  std::memset(buffer, 'x', 3);
  const auto seen = theirs.map(*mine.find(buffer, 3));
  ASSERT_TRUE(seen.ok()) << seen.error().message;
  EXPECT_EQ(std::memcmp(seen->get(), "xxx", 3), 0);
  EXPECT_FALSE(SharedMemory(segment(), mine.own()).find(buffer, 3)) << "found in a later session";
}

TEST(SharedMemory, KeepsNoDescriptorOfFreedMemory) {
  const auto shared = segment();
  const std::size_t before = test::entries_in("/proc/self/fd");
  const SharedMemory mine = memory_in(shared);
  SharedMemory theirs = memory_in(shared);
  std::byte* const buffer = allocate(mine, shared, 4096);
  EXPECT_TRUE(theirs.map(*mine.find(buffer, 1)).ok());
  EXPECT_EQ(test::entries_in("/proc/self/fd"), before + 1);
  mine.own()->free(buffer);
  EXPECT_EQ(test::entries_in("/proc/self/fd"), before);
}

// The child could start a job of its own.
TEST(SharedMemory, AForkedChildDoesNotChangeTheMemoryOfItsParent) {
  const auto shared = segment();
  const SharedMemory memory = memory_in(shared);
  std::byte* const buffer = allocate(memory, shared, 4096);
  std::memset(buffer, 'x', 4096);
  test::Child child([&](const test::Child::Report& report) {
    std::byte* const own = allocate(memory, shared, 4096);
    std::memset(own, 'y', 4096);
    memory.own()->free(buffer);
    report("done");
  });
  EXPECT_EQ(child.line(), "done");
  std::byte* const next = allocate(memory, shared, 4096);
  EXPECT_EQ(next[0], std::byte{0});
  EXPECT_EQ(buffer[0], std::byte{'x'});
}

TEST(SharedMemory, FindsOnlyRangesWithinOneAllocation) {
  const auto shared = segment();
  const SharedMemory memory = memory_in(shared);
  std::byte* const buffer = allocate(memory, shared, 4096);
  EXPECT_TRUE(memory.find(buffer, 4096));
  EXPECT_TRUE(memory.find(buffer + 4095, 1));
  EXPECT_FALSE(memory.find(buffer, 4097));
  EXPECT_FALSE(memory.find(buffer - 1, 1));
  int other = 0;
  EXPECT_FALSE(memory.find(&other, sizeof other));
  memory.own()->free(buffer);
  EXPECT_FALSE(memory.find(buffer, 1));
}

// Private pages of the program.
struct Pages {
  static constexpr std::size_t kBytes = 4 * 4096;
  Pages()
      : data(static_cast<std::byte*>(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    std::memset(data, 'x', kBytes);
  }
  ~Pages() { ::munmap(data, kBytes); }
  std::byte* data;
};

TEST(SharedMemory, AdoptKeepsTheContentOfPages) {
  const auto shared = segment();
  SharedMemory mine = memory_in(shared), theirs = memory_in(shared);
  const Pages pages;
  ASSERT_TRUE(mine.own()->adopt(shared, pages.data, Pages::kBytes).ok());
  const auto place = mine.find(pages.data + 5000, 3);
  ASSERT_TRUE(place);
  const auto kept = theirs.map(*place);
  std::byte* const seen = kept->get();
  EXPECT_EQ(std::memcmp(seen, "xxx", 3), 0);
  std::memset(seen, 'y', 3);
  EXPECT_EQ(std::memcmp(pages.data + 5000, "yyy", 3), 0);
  for (const std::size_t first : {0u, 4096u, 3u * 4096})
    EXPECT_FALSE(mine.own()->adopt(shared, pages.data + first, 4096).ok())
        << "a part, from " << first;

  ASSERT_TRUE(mine.own()->disown(pages.data).ok());
  EXPECT_FALSE(mine.find(pages.data, 1));
  EXPECT_EQ(std::memcmp(pages.data + 4999, "xyyyx", 5), 0);
  std::memset(seen, 'z', 3);
  EXPECT_EQ(std::memcmp(pages.data + 5000, "yyy", 3), 0) << "other ranks still change the pages";
  EXPECT_TRUE(mine.own()->adopt(shared, pages.data, 4096).ok()) << "pages cannot be adopted again";
  ASSERT_TRUE(mine.own()->disown(pages.data).ok());
}

TEST(SharedMemory, ANewAllocationIsZeroedAndHasANewPlace) {
  const auto shared = segment();
  const SharedMemory memory = memory_in(shared);
  std::byte* const first = allocate(memory, shared, 4096);
  std::memset(first, 1, 4096);
  const auto old_place = memory.find(first, 1);
  memory.own()->free(first);
  std::byte* const second = allocate(memory, shared, 4096);
  EXPECT_FALSE(is_same_place(*memory.find(second, 1), *old_place));
  EXPECT_EQ(second[0], std::byte{0});
}

TEST(SharedMemory, BuffersInUseStayMappedBeyondTheLimit) {
  const auto shared = segment();
  SharedMemory mine = memory_in(shared), theirs = memory_in(shared, 2);
  std::vector<std::shared_ptr<std::byte>> seen;
  for (int i = 0; i < 10; ++i) {
    std::byte* const buffer = allocate(mine, shared, 4096);
    *buffer = static_cast<std::byte>(i);
    const auto mapped = theirs.map(*mine.find(buffer, 4096));
    ASSERT_TRUE(mapped.ok()) << mapped.error().message;
    seen.push_back(*mapped);
  }
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(*seen[static_cast<std::size_t>(i)], static_cast<std::byte>(i));
}

TEST(SharedMemory, WithoutRoomFailsWithTheSizeThatIsNeeded) {
  const auto shared = segment();
  const SharedMemory memory = memory_in(shared);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  rlimit low = old;
  low.rlim_cur = 1 << 20;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &low);
  const auto allocated = memory.own()->allocate(shared, std::size_t{64} << 20);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(allocated.ok());
  EXPECT_NE(allocated.error().message.find("65536 KiB"), std::string::npos)
      << allocated.error().message;
}

// A rank's input and output for an allreduce, in private or in shared memory.
class Buffers {
 public:
  Buffers(Communicator& communicator, bool shared, bool in_place, std::size_t offset,
          std::size_t count)
      : private_(2 * (count + offset)) {
    float* begin = private_.data();
    if (shared)
      begin = reinterpret_cast<float*>(allocate(*communicator.memory(), communicator.segment(),
                                                private_.size() * sizeof(float)));
    input = begin + offset;
    output = in_place ? input : begin + count + 2 * offset;
    for (std::size_t i = 0; i < count; ++i)
      input[i] =
          static_cast<float>((i * 7 + static_cast<std::size_t>(communicator.rank())) % 1000) / 3;
  }

  float* input;
  float* output;

 private:
  std::vector<float> private_;
};

std::vector<float> sum(Communicator& communicator, bool shared, bool in_place, std::size_t offset,
                       std::size_t count) {
  const Buffers buffers(communicator, shared, in_place, offset, count);
  const Result<void> done =
      communicator.allreduce(buffers.input, buffers.output, count, HVD_FLOAT32, HVD_SUM, {});
  EXPECT_TRUE(done.ok()) << done.error().message;
  return {buffers.output, buffers.output + count};
}

TEST(SharedAllreduce, GivesTheSameBitsForPrivateAndSharedBuffers) {
  for (const int size : {2, 3, 4}) {
    test::run_ranks_everywhere(size, [](Communicator& communicator) {
      for (const std::size_t count : {2100u, 50'000u, 123'457u}) {
        const std::vector<float> wanted = sum(communicator, false, true, 0, count);
        for (const bool in_place : {true, false}) {
          for (const std::size_t offset : {0u, 5u}) {
            EXPECT_EQ(sum(communicator, true, in_place, offset, count), wanted);
            const bool only_one = communicator.rank() == 1;
            EXPECT_EQ(sum(communicator, only_one, in_place, offset, count), wanted);
            EXPECT_EQ(sum(communicator, !only_one, !in_place && only_one, offset, count), wanted);
          }
        }
      }
    });
  }
}

TEST(SharedAllreduce, BuffersMayBeAllocatedAndFreedRepeatedly) {
  test::run_ranks(2, [](Communicator& communicator) {
    for (int round = 0; round < 50; ++round) {
      std::byte* const memory = allocate(*communicator.memory(), communicator.segment(), 100'000);
      auto* const values = reinterpret_cast<std::int32_t*>(memory);
      for (int i = 0; i < 25'000; ++i) values[i] = i + round;
      ASSERT_TRUE(communicator.allreduce(values, values, 25'000, HVD_INT32, HVD_SUM, {}).ok());
      for (int i = 0; i < 25'000; ++i) ASSERT_EQ(values[i], 2 * (i + round));
      communicator.memory()->own()->free(memory);
    }
  });
}

// A call needs the buffers of all ranks at the same time.
TEST(SharedAllreduce, WorksWithMoreBuffersThanStayMapped) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 4096;
  auto made = Segment::anonymous(kRanks);
  ASSERT_TRUE(made.ok());
  const auto shared = std::make_shared<Segment>(std::move(*made));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&shared, rank] {
      Communicator communicator(
          shared, rank,
          std::make_shared<SharedMemory>(shared, std::make_shared<ProcessMemory>(), 1));
      std::vector<std::int32_t*> buffers;
      for (int i = 0; i < 5; ++i)
        buffers.push_back(reinterpret_cast<std::int32_t*>(allocate(
            *communicator.memory(), communicator.segment(), kCount * sizeof(std::int32_t))));
      for (int round = 0; round < 20; ++round) {
        std::int32_t* const in = buffers[static_cast<std::size_t>(round) % 5];
        std::int32_t* const out = buffers[static_cast<std::size_t>(round + 3) % 5];
        std::fill_n(in, kCount, rank + round);
        ASSERT_TRUE(communicator.allreduce(in, out, kCount, HVD_INT32, HVD_SUM, {}).ok());
        ASSERT_EQ(out[0], 3 * round + 3);
        ASSERT_EQ(out[kCount - 1], 3 * round + 3);
      }
      communicator.leave();
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(SharedAllreduce, AMismatchFailsAndWritesNothing) {
  test::run_ranks(3, [](Communicator& communicator) {
    const Buffers buffers(communicator, true, false, 0, 50'000);
    const std::size_t count = communicator.rank() == 1 ? 40'000 : 50'000;
    const Result<void> done =
        communicator.allreduce(buffers.input, buffers.output, count, HVD_FLOAT32, HVD_SUM, {});
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().status, HVD_ERROR_MISMATCH);
    EXPECT_EQ(buffers.output[0], 0);
    ASSERT_TRUE(communicator.barrier({}).ok());
  });
}

}  // namespace
}  // namespace libhvd
