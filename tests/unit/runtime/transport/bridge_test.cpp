// A bridge. The test acts as the bridge of the other host, over a socket pair.
#include "transport/bridge.hpp"

#include "bootstrap/socket.hpp"
#include "collective/communicator.hpp"
#include "support.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

// Ranks 0 and 2 are here, on a; rank 1 is on b.
class BridgeTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto made = Segment::anonymous(3);
    ASSERT_TRUE(made.ok());
    segment_ = std::make_shared<Segment>(std::move(*made));
    segment_->set_places({{0, "a", 10}, {1, "b", 11}, {0, "a", 12}}, 0);
    ASSERT_TRUE(segment_->add_bridge(0).ok());
  }

  void start(std::chrono::milliseconds silence = {}) {
    test::ConnectionPair ends = test::connect_pair(GetParam());
    other_ = std::move(ends[1]);
    start_on(std::move(ends[0]), silence);
  }

  void start_on(Connection socket, std::chrono::milliseconds silence) {
    std::vector<HostSocket> sockets;
    sockets.push_back({1, std::move(socket)});
    auto started = Bridge::start(segment_, std::move(sockets), silence);
    ASSERT_TRUE(started.ok());
    bridge_ = std::move(*started);
  }

  void send(const void* bytes, std::size_t count) {
    const Bytes all(static_cast<const std::uint8_t*>(bytes), count);
    ASSERT_TRUE(send_all(other_, all, Deadline(std::chrono::minutes(1))).ok());
  }
  void send(const FrameHead& head) { send(&head, sizeof head); }

  std::vector<std::uint8_t> receive(std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    EXPECT_TRUE(receive_all(other_, bytes, Deadline(std::chrono::minutes(1))).ok());
    return bytes;
  }

  // Returns the next head that is no heartbeat.
  FrameHead receive_head() {
    FrameHead head{};
    do {
      const auto bytes = receive(sizeof head);
      std::memcpy(&head, bytes.data(), sizeof head);
    } while (head.kind == FrameKind::beat);
    return head;
  }

  // Returns the error of a barrier of rank 0, or "none".
  std::string failure_of_rank_0() {
    Communicator communicator(segment_, 0);
    const Result<void> outcome = communicator.barrier({});
    return outcome.ok() ? "none" : outcome.error().message;
  }

  std::shared_ptr<Segment> segment_;
  Connection other_;
  std::unique_ptr<Bridge> bridge_;
};

FrameHead head_of(FrameKind kind, std::uint32_t rank, std::uint32_t step, Used used = {}) {
  FrameHead head{};
  head.kind = kind;
  head.rank = rank;
  head.step = step;
  head.used = used;
  return head;
}

TEST_P(BridgeTest, SendsOnlyTheUsedBytes) {
  start();
  const Area area = segment_->area(2, 1);
  std::memset(area.input, 'i', 100);
  area.used = {100, 0};
  segment_->publish(2, 1);
  const FrameHead head = receive_head();
  EXPECT_EQ(head.kind, FrameKind::step);
  EXPECT_EQ(head.rank, 2u);
  EXPECT_EQ(head.step, 1u);
  EXPECT_EQ(receive(100), std::vector<std::uint8_t>(100, 'i'));
}

// While a rank has the turns, the bridge's own thread does nothing.
TEST_P(BridgeTest, SendsAndReceivesOnTheThreadOfAWaitingRank) {
  start();
  while (!bridge_->take_turns()) std::this_thread::yield();
  segment_->publish(0, 1);
  bridge_->turn();
  EXPECT_EQ(receive_head().rank, 0u);
  send(head_of(FrameKind::step, 1, 1));
  const auto& arrived = segment_->block(1).arrived;
  while (arrived.load() == 0) bridge_->sleep([] { return false; }, 1'000'000'000);
  EXPECT_FALSE(std::async(std::launch::async, [&] { return bridge_->take_turns(); }).get());
  bridge_->return_turns();
  send(head_of(FrameKind::step, 1, 2));
  while (arrived.load() == 1) std::this_thread::yield();
}

TEST_P(BridgeTest, DoesNotSleepWhenTheRankIsReady) {
  start();
  while (!bridge_->take_turns()) std::this_thread::yield();
  constexpr std::uint64_t kForEver = ~std::uint64_t{0} >> 1;
  bridge_->sleep([] { return true; }, kForEver);
  bridge_->return_turns();
}

// Small frames arrive in one read, large ones in several.
TEST_P(BridgeTest, ReceivesFramesOfEverySize) {
  start();
  std::uint32_t step = 0;
  for (const std::uint32_t bytes : {0u, 1u, 4096u, 8191u, 8192u, 8193u, 65536u, 100u, 0u}) {
    const std::vector<std::uint8_t> body(bytes, static_cast<std::uint8_t>(++step));
    std::vector<std::uint8_t> frame(sizeof(FrameHead) + bytes);
    const FrameHead head = head_of(FrameKind::step, 1, step, {bytes, 0});
    std::memcpy(frame.data(), &head, sizeof head);
    std::copy(body.begin(), body.end(), frame.begin() + sizeof head);
    send(frame.data(), frame.size());
    while (segment_->block(1).arrived.load() != step) std::this_thread::yield();
    const auto* input = reinterpret_cast<const std::uint8_t*>(segment_->area(1, step).input);
    EXPECT_TRUE(std::equal(body.begin(), body.end(), input)) << bytes;
  }
}

TEST_P(BridgeTest, ReceivesManyFramesAtOnce) {
  start();
  std::vector<FrameHead> heads;
  for (std::uint32_t step = 1; step <= 1000; ++step)
    heads.push_back(head_of(FrameKind::step, 1, step));
  send(heads.data(), heads.size() * sizeof(FrameHead));
  while (segment_->block(1).arrived.load() != 1000) std::this_thread::yield();
}

TEST_P(BridgeTest, ReportsThatARankHasLeftAfterItsLastStep) {
  segment_->publish(2, 1);
  segment_->set_left(2);
  start();
  EXPECT_EQ(receive_head().kind, FrameKind::step);
  const FrameHead head = receive_head();
  EXPECT_EQ(head.kind, FrameKind::left);
  EXPECT_EQ(head.rank, 2u);
}

TEST_P(BridgeTest, SendsGoodbyeAfterAllOtherFrames) {
  start();
  segment_->set_failure(FailureKind::died, 2);
  std::thread leaving([&] { bridge_.reset(); });
  EXPECT_EQ(receive_head().kind, FrameKind::failure);
  EXPECT_EQ(receive_head().kind, FrameKind::goodbye);
  other_.close();  // the goodbye has arrived
  leaving.join();
}

// The other host may be lost, so that it never answers.
TEST_P(BridgeTest, LeavesSoonerAfterTheLauncherHasEndedTheGeneration) {
  const auto time_to_leave = [this] {
    const auto begun = std::chrono::steady_clock::now();
    bridge_.reset();
    return std::chrono::steady_clock::now() - begun;
  };
  start();
  const auto usual = time_to_leave();
  segment_->set_failure(FailureKind::over, 1);
  start();
  EXPECT_LT(2 * time_to_leave(), usual);
}

TEST_P(BridgeTest, AdoptsTheFailureThatAnotherHostReports) {
  start();
  send(head_of(FrameKind::failure, 2, static_cast<std::uint32_t>(FailureKind::died)));
  EXPECT_NE(failure_of_rank_0().find("rank 2 (pid 12 on a) has died"), std::string::npos);
}

TEST_P(BridgeTest, ReportsASilentHost) {
  auto ends = common::test::tcp_pair();
  other_ = std::move(ends.server);
  if (!common::test::fall_silent(other_.socket())) GTEST_SKIP() << "TCP_INFO does not show it here";
  start_on(std::move(ends.client), std::chrono::milliseconds(50));
  EXPECT_NE(failure_of_rank_0().find("host b (rank 1) does not answer"), std::string::npos);
}

TEST_P(BridgeTest, WaitsForAHostWhoseKernelAnswers) {
  auto ends = common::test::tcp_pair();
  other_ = std::move(ends.server);
  start_on(std::move(ends.client), std::chrono::milliseconds(50));
  for (int beat = 0; beat < 2; ++beat) receive(sizeof(FrameHead));  // the other end sends nothing
  EXPECT_FALSE(segment_->failed());
}

// The connection is no TCP, so the kernel cannot say whether the host answers. Silence alone is no
// failure.
TEST_P(BridgeTest, WaitsIfTheKernelCannotSay) {
  start(std::chrono::milliseconds(50));
  for (int beat = 0; beat < 2; ++beat) receive(sizeof(FrameHead));
  EXPECT_FALSE(segment_->failed());
}

TEST_P(BridgeTest, TreatsAClosedConnectionAsADeadRank) {
  start();
  other_.close();
  EXPECT_NE(failure_of_rank_0().find("rank 1 (pid 11 on b) has died"), std::string::npos);
}

TEST_P(BridgeTest, BlamesTheRankThatLeftAndNotTheOneThatEndedBecauseOfIt) {
  start();
  send(head_of(FrameKind::step, 1, 1));  // rank 1 waits for rank 2, which has left
  segment_->set_left(2);
  other_.close();
  EXPECT_NE(failure_of_rank_0().find("rank 2 (pid 12 on a) has left"), std::string::npos);
}

// Invalid frames fail the connection with a reason. Nothing is written outside the area.
TEST_P(BridgeTest, RefusesInvalidFrames) {
  constexpr auto kMost = static_cast<std::uint32_t>(kChunkBytes);
  const auto kRoom = static_cast<std::uint32_t>(SegmentLayout(SegmentShape(3)).wide_bytes());
  const std::vector<FrameHead> invalid{
      head_of(static_cast<FrameKind>(0), 0, 0),
      head_of(static_cast<FrameKind>(99), 0, 0),
      head_of(FrameKind::step, 2, 1),  // a rank of our own host
      head_of(FrameKind::step, 3, 1),  // no rank
      head_of(FrameKind::step, 1, 2),  // out of order
      head_of(FrameKind::step, 1, 0),
      head_of(FrameKind::step, 1, 1, {kRoom + 1, 1}),
      head_of(FrameKind::step, 1, 1, {kMost + 1, 0}),
      head_of(FrameKind::left, 0, 0),
      head_of(FrameKind::failure, 1, 0),
      head_of(FrameKind::failure, 1, 99),
      head_of(FrameKind::failure, 7, 1),
  };
  for (std::size_t i = 0; i < invalid.size(); ++i) {
    SetUp();
    start();
    send(invalid[i]);
    EXPECT_NE(failure_of_rank_0().find("host b (rank 1) has sent data that makes no sense"),
              std::string::npos)
        << "case " << i;
    bridge_.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Connections, BridgeTest, testing::Bool(), [](const auto& encrypted) {
  return encrypted.param ? "OverTls" : "InTheClear";
});

class BridgeOverTlsTest : public BridgeTest {};

TEST_P(BridgeOverTlsTest, RefusesUnencryptedData) {
  start();
  const FrameHead head =
      head_of(FrameKind::failure, 2, static_cast<std::uint32_t>(FailureKind::died));
  const Bytes bytes(reinterpret_cast<const std::uint8_t*>(&head), sizeof head);
  ASSERT_TRUE(send_all(other_.socket(), bytes, Deadline(std::chrono::minutes(1))).ok());
  EXPECT_NE(failure_of_rank_0().find("host b (rank 1) has sent data that makes no sense"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Connections, BridgeOverTlsTest, testing::Values(true));

}  // namespace
}  // namespace libhvd
