#include "transport/peer_memory.hpp"

#include "support.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace libhvd {
namespace {

std::shared_ptr<Segment> segment_of_two() {
  auto made = Segment::anonymous(2);
  EXPECT_TRUE(made.ok());
  return std::make_shared<Segment>(std::move(*made));
}

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

// A process that is rank 1, whose memory has 'x' where this process has 'o'.
class PeerMemoryTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 300'000;

  // Starts the process, and waits until it is rank 1.
  void SetUp() override {
    child_.emplace([this](const test::Child::Report& report) {
      PeerMemory memory(segment_, 1, 0);
      std::memset(data_.data(), 'x', kBytes);
      report("ready");
      ::pause();
    });
    ASSERT_EQ(child_->line(), "ready");
  }

  std::shared_ptr<Segment> segment_ = segment_of_two();
  std::vector<char> data_ = std::vector<char>(kBytes, 'o');
  std::vector<char> to_ = std::vector<char>(kBytes);
  PeerMemory memory_{segment_, 0, 0};
  std::optional<test::Child> child_;

  bool read(const void* address, std::size_t bytes = kBytes) {
    return memory_.read(1, address_of(address), reinterpret_cast<std::byte*>(to_.data()), bytes);
  }
};

TEST_F(PeerMemoryTest, ReadsTheOtherProcess) {
  ASSERT_TRUE(read(data_.data()));
  EXPECT_EQ(to_, std::vector<char>(kBytes, 'x'));
}

TEST_F(PeerMemoryTest, RefusesAProcessWithoutTheNumber) {
  segment_->block(1).memory_proof.pid = static_cast<std::uint32_t>(::getpid());
  EXPECT_FALSE(read(data_.data()));
  EXPECT_EQ(to_, std::vector<char>(kBytes));
}

TEST_F(PeerMemoryTest, RefusesARankThatPublishedNoNumber) {
  segment_->block(1).memory_proof = {};
  EXPECT_FALSE(read(data_.data()));
}

TEST_F(PeerMemoryTest, ReadsNothingAfterWithdraw) {
  memory_.withdraw();
  EXPECT_FALSE(read(data_.data()));
  EXPECT_EQ(segment_->block(0).memory_proof.number, 0u);
}

TEST_F(PeerMemoryTest, FailsAtUnreadableMemory) {
  void* const hole = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(read(hole, 100));
  ::munmap(hole, 4096);
}

TEST_F(PeerMemoryTest, FailsWhenTheProcessHasEnded) {
  ASSERT_TRUE(read(data_.data()));
  child_->kill();
  child_->wait();
  EXPECT_FALSE(read(data_.data()));
}

}  // namespace
}  // namespace libhvd
