#include "agent/stdio_forwarder.hpp"

#include "base/system.hpp"
#include "protocol/messages.hpp"

#include <csignal>
#include <map>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

class StdioForwarder : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    auto ends = make_local_link();
    ASSERT_TRUE(ends);
    agent_ = std::make_unique<Link>(loop_, std::move(ends->agent),
                                    Link::Events{[](const Frame&) {}, [](auto) {}});
    launcher_ = std::make_unique<Link>(
        loop_, std::move(ends->launcher),
        Link::Events{[this](const Frame& frame) { on_frame(frame); }, [](auto) {}});
  }
  void TearDown() override { ::signal(SIGPIPE, SIG_DFL); }

  void on_frame(const Frame& frame) {
    const auto message = parse_output(frame.payload);
    ASSERT_TRUE(message);
    if (frame.type == FrameType::output) received_[message->header.rank] += message->bytes;
    if (frame.type == FrameType::output_closed) ++closed_;
    if (wanted_ && wanted_()) loop_.stop();
  }

  void run_until(std::function<bool()> wanted) {
    wanted_ = std::move(wanted);
    loop_.run();
  }

  static Pipe pipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    return {Fd(ends[0]), Fd(ends[1])};
  }

  EventLoop loop_;
  std::unique_ptr<Link> agent_;
  std::unique_ptr<Link> launcher_;
  std::map<unsigned, std::string> received_;
  int closed_ = 0;
  std::function<bool()> wanted_;
};

// One write of a rank is not split where the credit ends. The next write waits instead.
TEST_F(StdioForwarder, OutputWaitsForCreditAndContinuesWithMore) {
  int ended = 0;
  OutputForwarder forwarder(loop_, *agent_, [&](int) { ++ended; });
  auto one = pipe();
  auto two = pipe();
  ASSERT_EQ(::write(one.write.get(), "aaaaaaaaaa", 10), 10);
  ASSERT_EQ(::write(two.write.get(), "bbbbbbbbbb", 10), 10);
  forwarder.add(0, 1, std::move(one.read));
  forwarder.add(1, 2, std::move(two.read));
  forwarder.add_credit(5);
  run_until([&] { return received_[0].size() + received_[1].size() == 10; });
  EXPECT_TRUE(received_[0].empty() || received_[1].empty());
  forwarder.add_credit(6);
  run_until([&] { return received_[0].size() + received_[1].size() == 20; });
  forwarder.add_credit(100);
  one.write.reset();
  two.write.reset();
  run_until([&] { return closed_ == 2; });
  EXPECT_EQ(received_[0], "aaaaaaaaaa");
  EXPECT_EQ(received_[1], "bbbbbbbbbb");
  EXPECT_EQ(ended, 2);
  EXPECT_TRUE(forwarder.empty());
}

TEST_F(StdioForwarder, DropsOutputWhenTheLauncherIsGone) {
  auto one = pipe();
  ASSERT_EQ(::write(one.write.get(), "lost", 4), 4);
  OutputForwarder forwarder(loop_, *agent_, [&](int) { loop_.stop(); });
  forwarder.add(0, 1, std::move(one.read));
  forwarder.discard();
  one.write.reset();
  loop_.run();
  EXPECT_TRUE(forwarder.empty());
  EXPECT_TRUE(received_.empty());
}

TEST_F(StdioForwarder, ClosesAStreamThatDoesNotEnd) {
  auto one = pipe();
  OutputForwarder forwarder(loop_, *agent_, [](int) {});
  forwarder.add(0, 1, std::move(one.read));
  forwarder.close_all();
  EXPECT_TRUE(forwarder.empty());
  run_until([&] { return closed_ == 1; });
}

TEST_F(StdioForwarder, ReportsWrittenInputAndThenClosesIt) {
  auto stdin_pipe = pipe();
  std::size_t written = 0;
  const std::string large(1 << 20, 'x');  // more than a pipe holds
  StdinWriter forwarder(loop_, std::move(stdin_pipe.write),
                        [&](std::size_t bytes) { written += bytes; });
  forwarder.write(large);
  forwarder.close();
  EXPECT_LT(written, large.size());
  std::string got;
  FdEvent reader(loop_, stdin_pipe.read.get(), FdEvent::readable, [&] {
    char bytes[65536];
    const auto count = ::read(stdin_pipe.read.get(), bytes, sizeof bytes);
    if (count <= 0) return loop_.stop();
    got.append(bytes, static_cast<std::size_t>(count));
  });
  reader.enable();
  loop_.run();
  EXPECT_EQ(got, large);
  EXPECT_EQ(written, large.size());
}

TEST_F(StdioForwarder, DropsInputOfARankThatClosedItsStdin) {
  auto stdin_pipe = pipe();
  std::size_t written = 0;
  StdinWriter forwarder(loop_, std::move(stdin_pipe.write),
                        [&](std::size_t bytes) { written += bytes; });
  stdin_pipe.read.reset();
  forwarder.write("abc");
  forwarder.write("de");
  EXPECT_EQ(written, 5u);
  EXPECT_EQ(forwarder.taken(), 0u);
}

TEST_F(StdioForwarder, ReportsHowMuchInputTheRankHasRead) {
  for (const bool ends : {false, true}) {
    auto stdin_pipe = pipe();
    StdinWriter forwarder(loop_, std::move(stdin_pipe.write), [](std::size_t) {});
    forwarder.write("abcdefgh");
    if (ends) forwarder.close();
    EXPECT_EQ(forwarder.taken(), 0u);
    char bytes[3];
    EXPECT_EQ(::read(stdin_pipe.read.get(), bytes, sizeof bytes), 3);
    EXPECT_EQ(forwarder.taken(), 3u);
    stdin_pipe.read.reset();  // the rank has ended
    EXPECT_EQ(forwarder.taken(), 3u);
  }
}

}  // namespace
}  // namespace hvdrun
