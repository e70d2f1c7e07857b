#include "protocol/heartbeat.hpp"

#include <array>

#include <gtest/gtest.h>
#include <poll.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kTimeout{5000};

TEST(Silence, GrowsUntilThePeerIsHeard) {
  const Silence::Clock::time_point begin{};
  Silence silence(kTimeout, begin);
  for (int second = 1; second <= 6; ++second)
    EXPECT_EQ(silence.grow(begin + seconds(second)), seconds(second));
  silence.heard();
  EXPECT_EQ(silence.grow(begin + seconds(7)), seconds(1));
}

TEST(Silence, GrowsByLittleAfterAPauseOfThisProcess) {
  const Silence::Clock::time_point begin{};
  Silence silence(kTimeout, begin);
  EXPECT_EQ(silence.grow(begin + seconds(60)), seconds(2));
  EXPECT_EQ(silence.grow(begin + seconds(61)), seconds(3));
}

TEST(Silence, GrowsByMoreOnTheLaunchersOwnHost) {
  const Silence::Clock::time_point begin{};
  Silence silence(kTimeout, begin, true);
  EXPECT_EQ(Silence::interval(kTimeout, true), seconds(3));
  EXPECT_EQ(silence.grow(begin + milliseconds(4500)), milliseconds(4500));
  EXPECT_EQ(silence.grow(begin + seconds(60)), milliseconds(10500));
}

// The loop of the sender does not run, as if its thread were blocked.
TEST(HeartbeatSender, SendsWhileTheLoopIsBlocked) {
  const EventLoop loop;
  auto pair = make_local_link();
  ASSERT_TRUE(pair);
  Link link(loop, std::move(pair->launcher), {[](const Frame&) {}, [](const auto&) {}});
  FrameReader reader;
  int heard = 0;
  {
    HeartbeatSender sender;
    ASSERT_TRUE(sender.start(milliseconds(1)));
    sender.add(link);
    while (heard < 3) {
      pollfd waiting{pair->agent.in.get(), POLLIN, 0};
      ASSERT_EQ(::poll(&waiting, 1, 30000), 1) << "no heartbeat arrived";
      const auto room = reader.room();
      const auto got = ::read(pair->agent.in.get(), room.data, room.size);
      ASSERT_GT(got, 0);
      reader.filled(static_cast<std::size_t>(got));
      Frame frame{};
      while (*reader.next(frame) == FrameReader::Status::frame) {
        EXPECT_EQ(frame.type, FrameType::alive);
        ++heard;
      }
    }
  }
}

// A heartbeat must not be written into the middle of a frame that is partly written.
TEST(HeartbeatSender, DoesNotSplitFrames) {
  const EventLoop loop;
  auto pair = make_local_link();
  ASSERT_TRUE(pair);
  Link link(loop, std::move(pair->launcher), {[](const Frame&) {}, [](const auto&) {}});
  HeartbeatSender sender;
  ASSERT_TRUE(sender.start(milliseconds(1)));
  sender.add(link);
  const std::string payload(3 << 20, 'x');
  link.send(FrameType::note, 0, payload);
  FrameReader reader;
  bool whole = false;
  while (!whole) {
    link.flush(milliseconds(10));
    const auto room = reader.room();
    const auto got = ::read(pair->agent.in.get(), room.data, room.size);
    if (got <= 0) continue;
    reader.filled(static_cast<std::size_t>(got));
    Frame frame{};
    for (;;) {
      const auto status = reader.next(frame);
      ASSERT_TRUE(status) << status.error().message;
      if (*status == FrameReader::Status::need_more) break;
      if (frame.type == FrameType::alive) continue;
      ASSERT_EQ(frame.type, FrameType::note);
      EXPECT_EQ(frame.payload, payload);
      whole = true;
    }
  }
}

}  // namespace
}  // namespace hvdrun
