// Streams over socket pairs, and waiting for their data.
#include "transport/socket_streams.hpp"

#include "support.hpp"

#include <numeric>
#include <thread>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

// Ranks 0 on host a and 1 on host b; the one channel that is used joins them.
class StreamsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    constexpr std::uint64_t kRecordsPerKey = 5;
    test::ConnectionPair ends = test::connect_pair(GetParam(), false, kRecordsPerKey);
    raw_.reset(::dup(ends[1].get()));
    first_ = make({0, 1, 1, std::move(ends[0])});
    second_ = make({0, 0, 0, std::move(ends[1])});
  }

  static std::unique_ptr<SocketStreams> make(StreamEnd end) {
    std::vector<StreamEnd> all;
    all.push_back(std::move(end));
    return std::make_unique<SocketStreams>(StreamPlan(std::vector<int>{0, 1}), std::move(all));
  }

  void end_second() {
    second_.reset();
    raw_.reset();
  }

  static void finish(Streams& streams) {
    while (!streams.turn(1000).over) {
    }
  }

  std::unique_ptr<SocketStreams> first_;
  std::unique_ptr<SocketStreams> second_;
  Fd raw_;  // the socket that second_ writes to
};

TEST_P(StreamsTest, CarryMoreThanAConnectionBuffersInBothDirections) {
  std::vector<std::uint32_t> sent(1 << 20);
  std::iota(sent.begin(), sent.end(), 0u);
  const std::size_t bytes = sent.size() * sizeof sent[0];
  const auto exchange = [&](Streams& streams, int other) {
    std::vector<std::uint32_t> come(sent.size());
    streams.send(0, other, sent.data(), bytes);
    streams.receive(0, other, come.data(), bytes / 4);  // in two parts
    streams.receive(0, other, come.data() + come.size() / 4, bytes - bytes / 4);
    streams.mark();
    streams.call_due();
    finish(streams);
    EXPECT_EQ(come, sent);
  };
  std::thread there([&] { exchange(*second_, 0); });
  exchange(*first_, 1);
  there.join();
}

TEST_P(StreamsTest, WaitOnlyForDataThatIsDue) {
  const std::vector<std::byte> much(std::size_t{8} << 20);
  std::byte one{7};
  first_->send(0, 1, &one, 1);
  first_->mark();
  first_->call_due();
  first_->send(0, 1, much.data(), much.size());  // the other end does not receive it
  EXPECT_TRUE(first_->turn(0).over);
  first_->mark();
  first_->call_due();
  EXPECT_FALSE(first_->turn(0).over);
  std::byte come{};
  second_->receive(0, 0, &come, 1);
  finish(*second_);
  EXPECT_EQ(come, one);
}

TEST_P(StreamsTest, NameTheRankOfAClosedConnectionAfterItsLastData) {
  std::byte byte{9};
  second_->send(0, 0, &byte, 1);
  end_second();
  std::byte come[2] = {};
  first_->receive(0, 1, come, 1);
  EXPECT_TRUE(first_->turn(0).over);
  EXPECT_EQ(come[0], byte);
  first_->receive(0, 1, come + 1, 1);
  const auto turn = first_->turn(0);
  EXPECT_FALSE(turn.over);
  EXPECT_EQ(turn.lost, 1);
}

class WaitOutsideTest : public StreamsTest {
 protected:
  void SetUp() override {
    StreamsTest::SetUp();
    auto made = Segment::anonymous(3);
    ASSERT_TRUE(made.ok());
    segment_ = std::make_shared<Segment>(std::move(*made));
    segment_->set_places({{0, "a", 10}, {1, "b", 11}, {0, "a", 12}}, 0);
    first_->receive(0, 1, &byte_, 1);
  }

  std::optional<Failure> wait() {
    StepBarrier steps(segment_, 0);
    return steps.wait_outside([&](int most_ms) { return first_->turn(most_ms); });
  }

  std::shared_ptr<Segment> segment_;
  std::byte byte_{};
};

TEST_P(WaitOutsideTest, ReturnsWhenAllDataHasArrived) {
  const std::byte sent{3};
  second_->send(0, 0, &sent, 1);
  EXPECT_FALSE(wait());
  EXPECT_EQ(byte_, sent);
}

TEST_P(WaitOutsideTest, TreatsAClosedConnectionAsADeadRank) {
  end_second();
  const auto failure = wait();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, FailureKind::died);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->host, "b");
  EXPECT_TRUE(segment_->failed());  // so all ranks learn of it
}

TEST_P(WaitOutsideTest, ReportsARankThatHasLeft) {
  segment_->set_left(1);
  end_second();
  const auto failure = wait();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, FailureKind::left);
}

TEST_P(WaitOutsideTest, PrefersTheFailureThatABridgeHasReported) {
  end_second();
  segment_->set_failure(FailureKind::died, 2);
  const auto failure = wait();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
}

TEST_P(WaitOutsideTest, ReturnsWhenItIsInterrupted) {
  StepBarrier steps(segment_, 0);
  std::thread other([&] { steps.interrupt(); });
  EXPECT_TRUE(steps.wait_outside([&](int most_ms) { return first_->turn(most_ms); }));
  other.join();
  EXPECT_FALSE(segment_->failed());  // no rank is blamed
}

const auto kName = [](const auto& encrypted) { return encrypted.param ? "OverTls" : "InTheClear"; };
INSTANTIATE_TEST_SUITE_P(Connections, StreamsTest, testing::Bool(), kName);
INSTANTIATE_TEST_SUITE_P(Connections, WaitOutsideTest, testing::Bool(), kName);

using WaitOutsideOverTlsTest = WaitOutsideTest;
INSTANTIATE_TEST_SUITE_P(Connections, WaitOutsideOverTlsTest, testing::Values(true));

// No rank has died, and the foreign bytes must not be taken for data.
TEST_P(WaitOutsideOverTlsTest, ReportsChangedData) {
  const std::string foreign(100, 'x');
  ASSERT_EQ(::write(raw_.get(), foreign.data(), foreign.size()), 100);
  const auto failure = wait();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, FailureKind::garbled);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(byte_, std::byte{});
}

}  // namespace
}  // namespace libhvd
