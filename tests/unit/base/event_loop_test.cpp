#include "base/event_loop.hpp"

#include "base/system.hpp"

#include <algorithm>
#include <csignal>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

TEST(EventLoop, CallsBackWhenADescriptorIsReadable) {
  EventLoop loop;
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe) << pipe.error().message;
  char got = 0;
  FdEvent event(loop, pipe->read.get(), FdEvent::readable, [&] {
    ASSERT_EQ(::read(pipe->read.get(), &got, 1), 1);
    loop.stop();
  });
  event.enable();
  ASSERT_EQ(::write(pipe->write.get(), "x", 1), 1);
  loop.run();
  EXPECT_EQ(got, 'x');
}

TEST(EventLoop, AnEventMayDestroyItselfInItsCallback) {
  EventLoop loop;
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe) << pipe.error().message;
  FdEvent event;
  event = FdEvent(loop, pipe->write.get(), FdEvent::writable, [&] { event.reset(); });
  event.enable();
  loop.run();  // ends because no event is left
  EXPECT_FALSE(event);
}

TEST(Timer, FiresInOrderOfTheirDelaysAndNotWhenCancelled) {
  EventLoop loop;
  std::vector<int> fired;
  Timer late(loop, [&] { fired.push_back(2); });
  Timer early(loop, [&] { fired.push_back(1); });
  Timer never(loop, [&] { fired.push_back(3); });
  late.start(milliseconds(20));
  early.start(milliseconds(1));
  never.start(milliseconds(5));
  never.cancel();
  EXPECT_FALSE(never.pending());
  loop.run();
  EXPECT_EQ(fired, (std::vector{1, 2}));
}

TEST(Mailbox, RunsCallsOfOtherThreadsOnTheLoopInTheirOrder) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 1000;
  EventLoop loop;
  Mailbox mailbox(loop);
  std::vector<std::vector<int>> seen(kThreads);
  int total = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i)
        mailbox.post([&, t, i] {
          seen[static_cast<std::size_t>(t)].push_back(i);
          if (++total == kThreads * kCalls) loop.stop();
        });
    });
  loop.run();
  for (auto& thread : threads) thread.join();
  for (const auto& calls : seen) {
    ASSERT_EQ(calls.size(), kCalls);
    EXPECT_TRUE(std::is_sorted(calls.begin(), calls.end()));
  }
}

TEST(Mailbox, DrainRunsWhatWaits) {
  EventLoop loop;
  Mailbox mailbox(loop);
  bool ran = false;
  mailbox.post([&] { ran = true; });
  EXPECT_FALSE(ran);
  mailbox.drain();
  EXPECT_TRUE(ran);
}

TEST(SignalWatch, SeesABlockedSignal) {
  const auto before = block_signals({SIGUSR1});
  {
    EventLoop loop;
    int seen = 0;
    SignalWatch watch(loop, {SIGUSR1}, [&](int signal) {
      seen = signal;
      loop.stop();
    });
    ::kill(::getpid(), SIGUSR1);
    loop.run();
    EXPECT_EQ(seen, SIGUSR1);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST(SignalWatch, LeavesIgnoredSignalsAlone) {
  ::signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(not_ignored({SIGHUP, SIGUSR1}), std::vector{SIGUSR1});
  ::signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(not_ignored({SIGHUP, SIGUSR1}), (std::vector{SIGHUP, SIGUSR1}));
}

TEST(SignalName, IsWhatPeopleWrite) {
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_name(SIGRTMIN + 3), "signal " + std::to_string(SIGRTMIN + 3));
}

}  // namespace
}  // namespace hvdrun
