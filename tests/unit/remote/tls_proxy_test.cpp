#include "remote/tls_proxy.hpp"

#include "connection_pairs.hpp"
#include "protocol/link.hpp"
#include "run_until.hpp"
#include "socket_pair.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kLinger{100};

struct LocalPair {
  Fd ours;     // the test's
  Fd proxies;  // the proxy's
};

LocalPair local_pair() {
  auto [ours, proxies] = make_socket_pair(SOCK_NONBLOCK);
  return {std::move(ours), std::move(proxies)};
}

// ours(a) ══ proxy(a) ══ TLS ══ proxy(b) ══ ours(b), all on one loop.
class TlsProxyTest : public testing::Test {
 protected:
  struct End {
    Fd ours;
    std::unique_ptr<TlsProxy> proxy;
    bool ended = false;
    std::optional<std::string> lost;
  };

  TlsProxyTest() {
    // A key serves for a few records, so that it is replaced within a test's data.
    auto [client, server] = common::test::secure_pair(common::test::tcp_pair(), 3);
    tcp_of_a_ = Fd(::fcntl(client.get(), F_DUPFD_CLOEXEC, 0));
    tcp_of_b_ = Fd(::fcntl(server.get(), F_DUPFD_CLOEXEC, 0));
    start(a_, std::move(client));
    start(b_, std::move(server));
  }

  void start(End& end, Connection tls) {
    LocalPair local = local_pair();
    end.ours = std::move(local.ours);
    end.proxy = std::make_unique<TlsProxy>(
        loop_, std::move(tls), std::move(local.proxies),
        [&end](const std::optional<std::string>& lost) {
          end.ended = true;
          end.lost = lost;
          end.proxy.reset();
        },
        kLinger);
  }

  // Sends as much as the kernel accepts. Returns how much that was.
  static std::size_t offer(const Fd& to, std::string_view bytes) {
    const ssize_t sent = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return sent > 0 ? static_cast<std::size_t>(sent) : 0;
  }

  // Sends copies of `chunk` into a_ until back-pressure stops it, since b_ reads nothing. Returns
  // the number of bytes.
  std::size_t fill_a(std::string_view chunk) {
    std::size_t sent = 0;
    bool moved = true;
    Timer quiet(loop_, [&] { moved = false; });
    const auto fill = [&] {
      const auto taken = offer(a_.ours, chunk.substr(sent % chunk.size()));
      sent += taken;
      if (taken > 0 || !quiet.pending()) quiet.start(std::chrono::milliseconds(300));
      return !moved || sent > (64u << 20);
    };
    run_until(loop_, fill, "back-pressure");
    return sent;
  }

  // Appends what can be read to `text`. Returns false at the end of file.
  static bool take(const Fd& from, std::string& text) {
    std::array<char, 65536> buffer;
    while (true) {
      const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
      if (got == 0) return false;
      if (got < 0) return errno == EAGAIN;
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }

  EventLoop loop_;
  End a_;
  End b_;
  Fd tcp_of_a_;  // keeps the connection open, as hvdrun does to query the kernel
  Fd tcp_of_b_;  // cuts the connection
};

std::string pattern(std::size_t size, unsigned seed) {
  std::string text(size, '\0');
  for (char& byte : text) byte = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
  return text;
}

TEST_F(TlsProxyTest, CarriesMuchDataInBothDirections) {
  const std::string to_b = pattern(6u << 20, 1);
  const std::string to_a = pattern(5u << 20, 2);
  std::size_t sent_to_b = 0;
  std::size_t sent_to_a = 0;
  std::string at_a;
  std::string at_b;
  run_until(
      loop_,
      [&] {
        sent_to_b += offer(a_.ours, std::string_view(to_b).substr(sent_to_b));
        sent_to_a += offer(b_.ours, std::string_view(to_a).substr(sent_to_a));
        take(a_.ours, at_a);
        take(b_.ours, at_b);
        return at_a.size() == to_a.size() && at_b.size() == to_b.size();
      },
      "all bytes");
  EXPECT_TRUE(at_b == to_b);
  EXPECT_TRUE(at_a == to_a);
}

// A side that does not read stops the other side at last, and no byte is lost.
TEST_F(TlsProxyTest, BuffersLittleAndLosesNothing) {
  const std::string chunk = pattern(1u << 20, 3);
  const std::size_t sent = fill_a(chunk);
  EXPECT_LT(sent, 64u << 20);  // what the kernel's socket buffers hold, at most some MB each
  std::string got;
  run_until(
      loop_,
      [&] {
        take(b_.ours, got);
        return got.size() == sent;
      },
      "the bytes in transit");
  std::string expected;
  while (expected.size() < sent) expected += chunk;
  expected.resize(sent);
  EXPECT_TRUE(got == expected);
}

TEST_F(TlsProxyTest, ForwardsTheEndOfFileAfterAllBytes) {
  const std::string words = pattern(300000, 4);
  std::size_t sent = 0;
  std::string got;
  bool open = true;
  run_until(
      loop_,
      [&] {
        if (sent < words.size()) sent += offer(a_.ours, std::string_view(words).substr(sent));
        if (sent == words.size()) a_.ours.reset();
        if (open) open = take(b_.ours, got);
        if (!open) b_.ours.reset();
        return a_.ended && b_.ended;
      },
      "both ends");
  EXPECT_TRUE(got == words);
  EXPECT_EQ(a_.lost, std::nullopt);
  EXPECT_EQ(b_.lost, std::nullopt);
}

// As with an agent's last frames: one side sends and closes at once while the other still sends.
TEST_F(TlsProxyTest, LosesNothingWhenOneSideClosesWhileTheOtherSends) {
  const std::string words = pattern(200000, 5);
  ASSERT_EQ(offer(a_.ours, words), words.size());
  a_.ours.reset();
  std::string got;
  bool open = true;
  run_until(
      loop_,
      [&] {
        if (open) offer(b_.ours, "data that is never read");
        if (open) open = take(b_.ours, got);
        if (!open) b_.ours.reset();
        return a_.ended && b_.ended;
      },
      "both ends");
  EXPECT_TRUE(got == words);
  EXPECT_EQ(a_.lost, std::nullopt);
}

TEST_F(TlsProxyTest, AddsAFrameAfterAWholeFrameOnly) {
  char header[kFrameHeaderSize];
  encode_frame_header(header, FrameType::note, kToLauncher, 4);
  const std::string frame = std::string(header, sizeof header) + "text";
  encode_frame_header(header, FrameType::died, kToLauncher, 3);
  const std::string last = std::string(header, sizeof header) + "why";
  for (const std::size_t cut : {std::size_t{0}, std::size_t{2}, std::size_t{14}}) {
    End a;
    End b;
    auto [client, server] = common::test::secure_pair(common::test::tcp_pair(), 3);
    start(a, std::move(client));
    start(b, std::move(server));
    a.proxy->say_last(FrameType::died, "why");
    const auto sent = frame + frame.substr(0, frame.size() - cut);
    ASSERT_EQ(offer(a.ours, sent), sent.size());
    a.ours.reset();
    std::string got;
    run_until(
        loop_, [&] { return !b.ours || !take(b.ours, got); }, "the end at b");
    EXPECT_EQ(got, sent + (cut == 0 ? last : "")) << cut;
    b.ours.reset();
    run_until(
        loop_, [&] { return a.ended && b.ended; }, "both ends");
  }
}

TEST_F(TlsProxyTest, ReportsThatTheConnectionWasCut) {
  ASSERT_EQ(::shutdown(tcp_of_b_.get(), SHUT_RDWR), 0);
  run_until(
      loop_, [&] { return a_.ended && b_.ended; }, "both ends");
  EXPECT_EQ(a_.lost, "the connection was cut");
  EXPECT_TRUE(b_.lost);
  std::string nothing;
  EXPECT_FALSE(take(a_.ours, nothing));
  EXPECT_EQ(nothing, "");
}

// With so much data in transit, a cannot send a TLS alert. b learns of the error only from the end
// of the connection.
TEST_F(TlsProxyTest, EndsTheConnectionAfterAnErrorAlthoughADescriptorIsOpen) {
  fill_a(pattern(1u << 20, 7));
  ASSERT_EQ(::send(tcp_of_b_.get(), "no record of TLS", 16, MSG_NOSIGNAL), 16);
  run_until(
      loop_, [&] { return a_.ended; }, "the error");
  EXPECT_TRUE(a_.lost);
  std::string got;
  bool open = true;
  run_until(
      loop_,
      [&] {
        if (open) open = take(b_.ours, got);
        return b_.ended;
      },
      "the end at b");
  EXPECT_TRUE(b_.lost);
}

// No process at the other end reads or closes the connection.
TEST_F(TlsProxyTest, DoesNotWaitForADeadPeer) {
  b_.proxy.reset();  // tcp_of_b_ keeps the connection open
  ASSERT_EQ(offer(a_.ours, "last words"), 10u);
  a_.ours.reset();
  run_until(
      loop_, [&] { return a_.ended; }, "its end");
  EXPECT_EQ(a_.lost, "the other side does not close the connection");
}

// Ranks have printed much, and the launcher is stopped.
TEST_F(TlsProxyTest, WaitsWhileTheOtherHostAnswers) {
  const std::string chunk = pattern(1u << 20, 8);
  const std::size_t sent = fill_a(chunk);
  a_.ours.reset();
  a_.proxy->local_has_ended();
  bool passed = false;
  Timer later(loop_, [&] { passed = true; });
  later.start(20 * kLinger);  // the kernel has sent a packet again, after ever longer pauses
  run_until(
      loop_, [&] { return passed; }, "some time");
  EXPECT_FALSE(a_.ended);
  std::string got;
  run_until(
      loop_, [&] { return !take(b_.ours, got); }, "the end at b");
  EXPECT_EQ(got.size(), sent);
}

LinkEnd link_end(Fd socket) {
  LinkEnd end;
  end.out = Fd(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  end.in = std::move(socket);
  return end;
}

TEST_F(TlsProxyTest, CarriesFrames) {
  const std::string payload = pattern(3u << 20, 6);
  std::string got;
  bool closed = false;
  std::optional<Link> one;
  std::optional<Link> other;
  one.emplace(loop_, link_end(std::move(a_.ours)),
              Link::Events{[](const Frame&) {}, [](const auto&) {}});
  other.emplace(loop_, link_end(std::move(b_.ours)),
                Link::Events{[&](const Frame& frame) { got = frame.payload; },
                             [&](const std::optional<Error>& error) {
                               EXPECT_FALSE(error);
                               closed = true;
                             }});
  one->send(FrameType::launch, 7, payload);
  run_until(
      loop_, [&] { return !got.empty(); }, "the frame");
  EXPECT_TRUE(got == payload);
  one.reset();
  run_until(
      loop_, [&] { return closed; }, "the end of the link");
}

}  // namespace
}  // namespace hvdrun
