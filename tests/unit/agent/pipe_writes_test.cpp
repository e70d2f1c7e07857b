#include "agent/pipe_writes.hpp"

#include "base/event_loop.hpp"
#include "base/system.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace hvdrun {
namespace {

struct Record : PipeWrites::Listener {
  void on_write(int pipe) override { pipes.push_back(pipe); }
  void on_lost() override { ++losses; }
  std::vector<int> pipes;
  int losses = 0;
};

class PipeWritesTest : public ::testing::Test {
 protected:
  static Pipe pipe() {
    auto made = make_pipe();
    EXPECT_TRUE(made);
    return std::move(*made);
  }
  static void write(const Pipe& pipe) { ASSERT_EQ(::write(pipe.write.get(), "x", 1), 1); }

  EventLoop loop_;
  PipeWrites writes_{loop_};
  Record record_;
};

TEST_F(PipeWritesTest, ReportsEachWriteInOrder) {
  const Pipe one = pipe();
  const Pipe two = pipe();
  for (const auto* each : {&one, &two}) writes_.watch(each->read.get(), record_);
  for (const auto* each : {&two, &one, &one, &two}) write(*each);
  writes_.update();
  const int a = one.read.get();
  const int b = two.read.get();
  EXPECT_EQ(record_.pipes, (std::vector{b, a, a, b}));
  writes_.update();
  EXPECT_EQ(record_.pipes.size(), 4u);
}

TEST_F(PipeWritesTest, ReportsNothingOfAPipeThatIsNotWatchedAnyMore) {
  const Pipe one = pipe();
  writes_.watch(one.read.get(), record_);
  write(one);
  writes_.unwatch(one.read.get());
  write(one);
  writes_.update();
  EXPECT_TRUE(record_.pipes.empty());
}

// A new pipe often has the number of one that was closed.
TEST_F(PipeWritesTest, ReportsNoWriteToAnEarlierPipeWithTheSameNumber) {
  Pipe one = pipe();
  const int number = one.read.get();
  Record earlier;
  writes_.watch(number, earlier);
  write(one);
  writes_.unwatch(number);
  const Pipe two = pipe();
  one.read.reset();
  ASSERT_EQ(::dup3(two.read.get(), number, O_CLOEXEC), number);
  writes_.watch(number, record_);
  write(two);
  writes_.update();
  EXPECT_EQ(record_.pipes.size(), 1u);
  writes_.unwatch(number);
  ::close(number);
}

TEST_F(PipeWritesTest, ReportsALossWhenTheQueueIsFull) {
  rlimit before{};
  ::getrlimit(RLIMIT_SIGPENDING, &before);
  const Pipe one = pipe();
  writes_.watch(one.read.get(), record_);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_SIGPENDING, &none), 0);
  write(one);
  ASSERT_EQ(::setrlimit(RLIMIT_SIGPENDING, &before), 0);
  writes_.update();
  EXPECT_EQ(record_.losses, 1);
}

TEST_F(PipeWritesTest, UpdatesFromTheLoopWhileItIsEager) {
  const Pipe one = pipe();
  writes_.watch(one.read.get(), record_);
  writes_.set_eager(true);
  write(one);
  loop_.run_once();
  EXPECT_EQ(record_.pipes.size(), 1u);
}

TEST(PipeWrites, LeavesOtherProgramsOfTheUserRoomForSignals) {
  rlimit before{};
  ::getrlimit(RLIMIT_SIGPENDING, &before);
  const EventLoop loop;
  const PipeWrites writes(loop);
  rlimit now{};
  ::getrlimit(RLIMIT_SIGPENDING, &now);
  EXPECT_LE(now.rlim_cur, before.rlim_cur / 2);
  EXPECT_EQ(writes.limit_before().rlim_cur, before.rlim_cur);
  ::setrlimit(RLIMIT_SIGPENDING, &before);
}

}  // namespace
}  // namespace hvdrun
