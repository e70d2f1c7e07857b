#include "base/event_loop.hpp"

#include "base/system.hpp"
#include "socket_pair.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// A clock that never advances: a loop with it runs until no descriptor is ready, and does not wait.
class StoppedClock final : public TimeSource {
 public:
  Clock::time_point now() const override { return {}; }
  bool run_due() override { return false; }
  bool pass(std::optional<Clock::time_point>) override { return false; }
};

// A readable and writable descriptor, and its other end.
struct ReadySocket {
  Fd fd;
  Fd other;
};

ReadySocket ready_socket() {
  auto [fd, other] = make_socket_pair();
  EXPECT_EQ(::write(other.get(), "x", 1), 1);
  return {std::move(fd), std::move(other)};
}

// Returns whether an epoll instance of this process watches the descriptor. The line of proc(5) is
// "tfd: 7 events: 19 …".
bool is_watched(int number) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    int watched = -1;
    for (std::string word; info >> word;)
      if (word == "tfd:" && info >> watched && watched == number) return true;
  }
  return false;
}

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

TEST(EventLoop, EventMayDestroyItselfInItsCallback) {
  EventLoop loop;
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe) << pipe.error().message;
  FdEvent event;
  event = FdEvent(loop, pipe->write.get(), FdEvent::writable, [&] { event.reset(); });
  event.enable();
  loop.run();  // ends because no event is left
  EXPECT_FALSE(event);
}

constexpr std::array kInterests{FdEvent::readable, FdEvent::writable};
using EndOfAnEvent = void (*)(std::optional<FdEvent>& event);

void reset(std::optional<FdEvent>& event) {
  event->reset();
}
void destroy(std::optional<FdEvent>& event) {
  event.reset();
}
void replace(std::optional<FdEvent>& event) {
  *event = FdEvent();
}

// Ends an event in its callback, and reuses the number of its descriptor for another event.
void expect_reusable_number(EndOfAnEvent end, FdEvent::Interest interest,
                            FdEvent::Interest next_interest) {
  StoppedClock time;
  EventLoop loop(&time);
  const ReadySocket old = ready_socket();
  const ReadySocket next = ready_socket();
  const int number = old.fd.get();
  const Fd twin(::dup(number));  // keeps the kernel's watch alive unless the loop removes it
  int calls = 0;
  int next_calls = 0;
  std::optional<FdEvent> event;
  FdEvent next_event;
  event.emplace(loop, number, interest, [&] {
    ++calls;
    EXPECT_TRUE(is_watched(number));
    end(event);
    EXPECT_FALSE(is_watched(number));
    ASSERT_EQ(::dup2(next.fd.get(), number), number);  // closes the old descriptor
    next_event = FdEvent(loop, number, next_interest, [&] {
      ++next_calls;
      next_event.disable();
    });
    next_event.enable();
  });
  event->enable();
  loop.run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(next_calls, 1);
}

void expect_reusable_number(EndOfAnEvent end) {
  for (const auto interest : kInterests)
    for (const auto next_interest : kInterests) {
      SCOPED_TRACE(testing::Message() << "interest " << interest << ", then " << next_interest);
      expect_reusable_number(end, interest, next_interest);
    }
}

TEST(FdEvent, NumberIsReusableAfterReset) {
  expect_reusable_number(reset);
}

TEST(FdEvent, NumberIsReusableAfterDestruction) {
  expect_reusable_number(destroy);
}

TEST(FdEvent, NumberIsReusableAfterReplacement) {
  expect_reusable_number(replace);
}

TEST(FdEvent, NumberIsReusableDespiteLibeventsEnvironment) {
  ::setenv("EVENT_EPOLL_USE_CHANGELIST", "1", 1);
  expect_reusable_number(reset);
  ::unsetenv("EVENT_EPOLL_USE_CHANGELIST");
}

TEST(FdEvent, MayBeReplacedInItsCallback) {
  StoppedClock time;
  EventLoop loop(&time);
  const ReadySocket one = ready_socket();
  const ReadySocket two = ready_socket();
  std::vector<int> calls;
  FdEvent event;
  event = FdEvent(loop, one.fd.get(), FdEvent::readable, [&] {
    calls.push_back(1);
    FdEvent next(loop, two.fd.get(), FdEvent::readable, [&] {
      calls.push_back(2);
      event.disable();
    });
    next.enable();
    event = std::move(next);
    EXPECT_FALSE(is_watched(one.fd.get()));
    EXPECT_TRUE(is_watched(two.fd.get()));
  });
  event.enable();
  loop.run();
  EXPECT_EQ(calls, (std::vector{1, 2}));
}

TEST(FdEvent, CallbackLivesUntilItReturns) {
  for (const auto end : {reset, destroy, replace}) {
    StoppedClock time;
    EventLoop loop(&time);
    const ReadySocket socket = ready_socket();
    bool ran = false;
    std::weak_ptr<std::string> seen;
    std::optional<FdEvent> event;
    event.emplace(loop, socket.fd.get(), FdEvent::readable,
                  [&, held = std::make_shared<std::string>("captured")] {
                    ran = true;
                    seen = held;
                    end(event);
                    EXPECT_EQ(*held, "captured");
                  });
    event->enable();
    loop.run();
    EXPECT_TRUE(ran);
    EXPECT_TRUE(seen.expired());
  }
}

// Both events are due in the same turn.
TEST(FdEvent, IsNotCalledAfterAnotherCallbackHasEndedIt) {
  StoppedClock time;
  EventLoop loop(&time);
  ReadySocket socket = ready_socket();
  const int number = socket.fd.get();
  int calls = 0;
  FdEvent reading;
  FdEvent writing;
  const auto end_both = [&] {
    ++calls;
    reading.reset();
    writing.reset();
    EXPECT_FALSE(is_watched(number));
    socket.fd.reset();
  };
  reading = FdEvent(loop, number, FdEvent::readable, end_both);
  writing = FdEvent(loop, number, FdEvent::writable, end_both);
  reading.enable();
  writing.enable();
  loop.run();
  EXPECT_EQ(calls, 1);
}

TEST(Timer, TimersFireInOrderOfTheirDelaysUnlessCancelled) {
  EventLoop loop;
  std::vector<int> fired;
  Timer late(loop, [&] { fired.push_back(2); });
  Timer early(loop, [&] { fired.push_back(1); });
  Timer never(loop, [&] { fired.push_back(3); });
  // The delays of timers that one callback starts begin together, however long the callback takes.
  Timer first(loop, [&] {
    late.start(milliseconds(20));
    early.start(milliseconds(1));
    never.start(milliseconds(5));
    never.cancel();
    EXPECT_FALSE(never.pending());
  });
  first.start(milliseconds(0));
  loop.run();
  EXPECT_EQ(fired, (std::vector{1, 2}));
}

TEST(Timer, MayBeDestroyedInItsCallbackAfterARestart) {
  StoppedClock time;
  for (TimeSource* const source :
       {static_cast<TimeSource*>(nullptr), static_cast<TimeSource*>(&time)}) {
    EventLoop loop(source);
    int fired = 0;
    std::optional<Timer> timer;
    timer.emplace(loop, [&, held = std::make_shared<std::string>("captured")] {
      ++fired;
      timer->start(milliseconds(0));
      timer.reset();
      EXPECT_EQ(*held, "captured");
    });
    timer->start(milliseconds(0));
    loop.run();  // ends because no event is left
    EXPECT_EQ(fired, 1);
  }
}

TEST(Mailbox, RunsCallsOfOtherThreadsInOrderOnTheLoop) {
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

TEST(Mailbox, DrainRunsPendingCalls) {
  EventLoop loop;
  Mailbox mailbox(loop);
  bool ran = false;
  mailbox.post([&] { ran = true; });
  EXPECT_FALSE(ran);
  mailbox.drain();
  EXPECT_TRUE(ran);
}

TEST(Mailbox, MayBeDestroyedInItsLastCall) {
  StoppedClock time;
  EventLoop loop(&time);
  int calls = 0;
  auto mailbox = std::make_unique<Mailbox>(loop);
  mailbox->post([&] { ++calls; });
  mailbox->post([&] {
    ++calls;
    mailbox.reset();
  });
  loop.run();
  EXPECT_EQ(calls, 2);
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

// Without these descriptors, the process would end neither by itself nor by SIGTERM.
TEST(EventLoopDeathTest, EndsTheProcessWithoutDescriptors) {
  const auto without_room = [](const auto& body) {
    EventLoop loop;
    rlimit none{};
    ::setrlimit(RLIMIT_NOFILE, &none);
    body(loop);
    ::_exit(0);
  };
  const ::testing::ExitedWithCode failed(kExitLauncher);
  EXPECT_EXIT(without_room([](EventLoop& loop) { const Mailbox mailbox(loop); }), failed,
              "hvdrun: error: .*: cannot make an eventfd: Too many open files .*raise ulimit -n");
  EXPECT_EXIT(
      without_room([](EventLoop& loop) { const SignalWatch watch(loop, {SIGUSR1}, [](int) {}); }),
      failed, "hvdrun: error: .*: cannot make a signalfd: Too many open files");
  EXPECT_EXIT(without_room([](EventLoop&) { const EventLoop other; }), failed,
              "hvdrun: error: .*: cannot wait for events: Too many open files");
}

TEST(SignalName, IsTheUsualName) {
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_name(SIGRTMIN + 3), "signal " + std::to_string(SIGRTMIN + 3));
}

TEST(EventLoop, ThrowsWhatACallbackHasThrownAndRunsAgain) {
  EventLoop loop;
  Timer throws(loop, [] { throw std::runtime_error("from a timer"); });
  Timer ends(loop, [&loop] { loop.stop(); });
  throws.start(milliseconds(0));
  EXPECT_THROW(loop.run(), std::runtime_error);
  const auto socket = ready_socket();
  FdEvent ready(loop, socket.fd.get(), FdEvent::readable,
                [] { throw std::runtime_error("from a descriptor"); });
  ready.enable();
  EXPECT_THROW(loop.run(), std::runtime_error);
  EXPECT_THROW(loop.run_once(), std::runtime_error);
  ready.disable();
  ends.start(milliseconds(0));
  EXPECT_NO_THROW(loop.run());
}

}  // namespace
}  // namespace hvdrun
