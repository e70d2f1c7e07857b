#include "protocol/link.hpp"

#include "base/system.hpp"
#include "connection_pairs.hpp"

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace {

std::atomic<int> refused_writes{0};
int refused_with = 0;
int writes = 0;

}  // namespace

// Replaces libc's function, which libevent calls. It can fail with an error of the test's choice.
extern "C" ssize_t writev(int fd, const iovec* parts, int count) {
  if (refused_writes > 0) {
    --refused_writes;
    errno = refused_with;
    return -1;
  }
  ++writes;
  using Function = ssize_t (*)(int, const iovec*, int);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "writev"));
  return real(fd, parts, count);
}

namespace hvdrun {
namespace {

class LinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = make_local_link();
    ASSERT_TRUE(pair) << pair.error().message;
    ends_ = std::move(*pair);
  }

  EventLoop loop_;
  LinkPair ends_;
};

LinkEnd tls_end(Connection connection) {
  LinkEnd end;
  end.tls = std::make_shared<TlsLink>(TlsLink{std::move(connection), {}});
  return end;
}

// The same over TLS, if the parameter says so. A key serves for few records.
class AnyLinkTest : public LinkTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) return LinkTest::SetUp();
    auto [agent, launcher] = common::test::secure_pair(common::test::tcp_pair(), 100);
    ends_.launcher = tls_end(std::move(launcher));
    ends_.agent = tls_end(std::move(agent));
  }
};

INSTANTIATE_TEST_SUITE_P(Streams, AnyLinkTest, testing::Bool(),
                         [](const auto& tls) { return tls.param ? "Tls" : "Plain"; });

TEST_P(AnyLinkTest, CarriesManyFramesInOrderInBothDirections) {
  constexpr int kFrames = 20'000;
  int at_launcher = 0;
  int at_agent = 0;
  const auto count = [&](int& counter) {
    return [&](const Frame& frame) {
      ASSERT_EQ(frame.payload, std::to_string(counter));
      if (++counter == kFrames && at_launcher + at_agent == 2 * kFrames) loop_.stop();
    };
  };
  Link launcher(loop_, std::move(ends_.launcher), {count(at_launcher), [](auto) {}});
  Link agent(loop_, std::move(ends_.agent), {count(at_agent), [](auto) {}});
  for (int i = 0; i < kFrames; ++i) {
    launcher.send(FrameType::input, 0, std::to_string(i));
    agent.send(FrameType::output, kToLauncher, std::to_string(i));
  }
  loop_.run();
  EXPECT_EQ(at_launcher, kFrames);
  EXPECT_EQ(at_agent, kFrames);
}

TEST_P(AnyLinkTest, ReportsTheEndOnceAfterAllFrames) {
  int frames = 0;
  int closed = 0;
  Link launcher(loop_, std::move(ends_.launcher),
                {[&](const Frame&) {
                   ++frames;
                   EXPECT_EQ(closed, 0);
                 },
                 [&](const std::optional<Error>& error) {
                   EXPECT_FALSE(error);
                   ++closed;
                   loop_.stop();
                 }});
  {
    Link agent(loop_, std::move(ends_.agent), {[](const Frame&) {}, [](auto) {}});
    for (int i = 0; i < 100; ++i) agent.send(FrameType::done, kToLauncher, "x");
    agent.flush(std::chrono::seconds(10));
  }
  loop_.run();
  EXPECT_EQ(frames, 100);
  EXPECT_EQ(closed, 1);
  EXPECT_TRUE(launcher.closed());
  launcher.send(FrameType::stop, 0, "after the end");  // harmless
}

TEST_P(AnyLinkTest, InvalidFrameEndsTheLinkWithAnError) {
  std::optional<Error> error;
  Link launcher(loop_, std::move(ends_.launcher),
                {[](const Frame&) { FAIL() << "no frame was sent"; },
                 [&](const std::optional<Error>& reason) {
                   error = reason;
                   loop_.stop();
                 }});
  const std::string garbage(64, '\xff');
  const ssize_t sent = GetParam() ? ends_.agent.tls->connection.send(garbage.data(), garbage.size())
                                  : ::write(ends_.agent.out.get(), garbage.data(), garbage.size());
  ASSERT_EQ(sent, 64);
  loop_.run();
  ASSERT_TRUE(error);
  EXPECT_NE(error->message.find("protocol"), std::string::npos) << error->message;
}

TEST_P(AnyLinkTest, TooLargeFrameIsAnsweredWithTheReason) {
  std::string reason;
  Link launcher(loop_, std::move(ends_.launcher),
                {[&](const Frame& frame) {
                   EXPECT_EQ(frame.type, FrameType::failed);
                   reason = frame.payload;
                   loop_.stop();
                 },
                 [](auto) { FAIL() << "the other direction still works"; }});
  std::optional<Link> agent;
  agent.emplace(loop_, std::move(ends_.agent),
                Link::Events{[](const Frame&) { FAIL() << "no whole frame was sent"; },
                             [&](const std::optional<Error>& error) {
                               ASSERT_TRUE(error);
                               agent->send(FrameType::failed, kToLauncher, error->message);
                             }});
  launcher.send_shared(FrameType::launch, 0,
                       std::make_shared<const std::string>(kMaxPayload + 1, 'x'));
  loop_.run();
  EXPECT_NE(reason.find("a frame of 67108865 bytes"), std::string::npos) << reason;
}

TEST_P(AnyLinkTest, SendsASharedPayloadWithoutCopies) {
  constexpr int kFrames = 50;
  const auto payload = std::make_shared<const std::string>(300'000, 'x');
  int frames = 0;
  Link launcher(loop_, std::move(ends_.launcher), {[](const Frame&) {}, [](auto) {}});
  Link agent(loop_, std::move(ends_.agent),
             {[&](const Frame& frame) {
                EXPECT_EQ(frame.payload, *payload);
                if (++frames == kFrames) loop_.stop();
              },
              [](auto) {}});
  for (int i = 0; i < kFrames; ++i) launcher.send_shared(FrameType::fence_result, 0, payload);
  EXPECT_GT(payload.use_count(), 1);
  loop_.run();
  EXPECT_EQ(frames, kFrames);
  EXPECT_EQ(payload.use_count(), 1) << "released after the last send";
  {
    auto pair = make_local_link();
    ASSERT_TRUE(pair);
    Link unread(loop_, std::move(pair->launcher), {[](const Frame&) {}, [](auto) {}});
    for (int i = 0; i < kFrames; ++i) unread.send_shared(FrameType::fence_result, 0, payload);
    EXPECT_GT(payload.use_count(), 1);
  }
  EXPECT_EQ(payload.use_count(), 1) << "released with the link";
}

TEST_P(AnyLinkTest, ReadsAPipeDirectlyIntoAFrame) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  ASSERT_EQ(::write(pipe->write.get(), "hello world", 11), 11);
  std::string got;
  Link launcher(loop_, std::move(ends_.launcher),
                {[&](const Frame& frame) {
                   got = frame.payload;
                   loop_.stop();
                 },
                 [](auto) {}});
  Link agent(loop_, std::move(ends_.agent), {[](const Frame&) {}, [](auto) {}});
  EXPECT_EQ(agent.send_read(FrameType::output, kToLauncher, "<", pipe->read.get(), 5), 5);
  loop_.run();
  EXPECT_EQ(got, "<hello");
  pipe->write.reset();
  EXPECT_EQ(agent.send_read(FrameType::output, kToLauncher, "<", pipe->read.get(), 100), 6);
  EXPECT_EQ(agent.send_read(FrameType::output, kToLauncher, "<", pipe->read.get(), 100), 0);
}

TEST_F(LinkTest, HeldFramesGoOutTogether) {
  int frames = 0;
  Link launcher(loop_, std::move(ends_.launcher),
                {[&](const Frame& frame) {
                   EXPECT_EQ(frame.payload, frames % 2 == 0 ? "header and line" : "whole");
                   if (++frames == 6) loop_.stop();
                 },
                 [](auto) {}});
  Link agent(loop_, std::move(ends_.agent), {[](const Frame&) {}, [](auto) {}});
  writes = 0;
  {
    const Link::Hold together(agent);
    for (int i = 0; i < 3; ++i) {
      agent.send_parts(FrameType::output, kToLauncher, "header ", "and line");
      agent.send(FrameType::output, kToLauncher, "whole");
    }
    EXPECT_EQ(writes, 0);
  }
  EXPECT_EQ(writes, 1);
  loop_.run();
  EXPECT_EQ(frames, 6);
}

TEST_F(LinkTest, LosesNothingWhenTheKernelLacksMemory) {
  for (const int error : {ENOBUFS, ENOMEM}) {
    SetUp();
    int frames = 0;
    bool closed = false;
    Link launcher(loop_, std::move(ends_.launcher),
                  {[&](const Frame& frame) { EXPECT_EQ(frame.payload, std::to_string(frames++)); },
                   [&](const auto& reason) {
                     closed = true;
                     EXPECT_FALSE(reason);
                     loop_.stop();
                   }});
    {
      Link agent(loop_, std::move(ends_.agent), {[](const Frame&) {}, [](auto) {}});
      refused_with = error;
      refused_writes = 3;
      agent.send(FrameType::output, kToLauncher, "0");
      agent.send(FrameType::output, kToLauncher, "1");
      while (frames < 2 && !closed) loop_.run_once();
      EXPECT_EQ(refused_writes, 0);
      refused_writes = 3;
      agent.send(FrameType::done, kToLauncher, "2");
      agent.flush(std::chrono::seconds(10));
    }
    while (!closed) loop_.run_once();
    EXPECT_EQ(frames, 3);
  }
}

TEST_F(LinkTest, OtherWriteErrorEndsTheLink) {
  std::optional<Error> error;
  int closed = 0;
  Link agent(loop_, std::move(ends_.agent),
             {[](const Frame&) { FAIL() << "no frame was sent"; },
              [&](const std::optional<Error>& reason) {
                error = reason;
                ++closed;
                loop_.stop();
              }});
  refused_with = EIO;
  refused_writes = 1;
  agent.send(FrameType::output, kToLauncher, "lost");
  EXPECT_EQ(closed, 0) << "not within send()";
  agent.send(FrameType::output, kToLauncher, "too late");
  loop_.run();
  EXPECT_EQ(closed, 1);
  EXPECT_TRUE(agent.closed());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "cannot write to the link: Input/output error");
}

// More than the connection holds, while another thread sends signs of life.
TEST_P(AnyLinkTest, SignsOfLifeComeBetweenFramesAlsoWhereThereIsNoRoom) {
  constexpr int kFrames = 200;
  int frames = 0;
  int signs = 0;
  Link launcher(loop_, std::move(ends_.launcher), {[](const Frame&) {}, [](auto) {}});
  std::atomic<int> turns = 0;  // of the loop; below 0 at the end
  std::thread beats([&] {
    for (int seen = 0; seen >= 0; seen = turns) {
      launcher.send_alive();
      turns.wait(seen);
    }
  });
  for (int i = 0; i < kFrames; ++i) launcher.send(FrameType::input, 0, std::string(50'000, 'x'));
  Link agent(loop_, std::move(ends_.agent),
             {[&](const Frame& frame) {
                frame.type == FrameType::alive ? ++signs : ++frames;
                EXPECT_EQ(frame.payload.size(), frame.type == FrameType::alive ? 0u : 50'000u);
              },
              [](auto) { FAIL() << "nothing closes it"; }});
  while (frames < kFrames || signs == 0) {
    loop_.run_once();
    ++turns;
    turns.notify_one();
  }
  turns = -1;
  turns.notify_one();
  beats.join();
}

TEST(TlsLinkTest, RecordsWhyItWasLost) {
  for (const std::string how : {"closed", "cut", "changed"}) {
    auto [far, near] = common::test::secure_pair(common::test::tcp_pair());
    LinkEnd end = tls_end(std::move(near));
    const auto tls = end.tls;
    EventLoop loop;
    int closed = 0;
    Link link(loop, std::move(end),
              {[](const Frame&) {},
               [&](const auto& error) {
                 EXPECT_FALSE(error);
                 ++closed;
                 loop.stop();
               }});
    if (how == "changed") {
      ASSERT_EQ(::send(far.get(), "no record of TLS", 16, MSG_NOSIGNAL), 16);
    }
    if (how == "closed") far.end_sending();
    if (how != "changed") far.close();
    loop.run();
    EXPECT_EQ(closed, 1);
    EXPECT_EQ(tls->lost, how == "closed" ? ""
                         : how == "cut"  ? "the connection was cut"
                                         : "what it sent was changed on its way");
  }
}

// The other side notices, though another owner has the connection, too.
TEST(TlsLinkTest, EndsTheConnectionWithTheLink) {
  auto [far, near] = common::test::secure_pair(common::test::tcp_pair());
  LinkEnd end = tls_end(std::move(near));
  const auto shared = end.tls;
  EventLoop loop;
  {
    const Link link(loop, std::move(end), {[](const Frame&) {}, [](const auto&) {}});
  }
  pollfd waiting{far.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 60000), 1);
  char byte = 0;
  EXPECT_EQ(far.receive(&byte, 1), 0);
  EXPECT_TRUE(far.has_ended_properly());
}

}  // namespace
}  // namespace hvdrun
