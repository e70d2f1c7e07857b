// Tests the agent's socket for members with real sockets: what it relays, what it refuses, and what
// it says of a connection that is lost.
#include "agent/member_server.hpp"

#include "../temporary_folder.hpp"
#include "common/agent_messages.hpp"
#include "protocol/member_messages.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr std::uint8_t kKeyByte = 0xaa;

// What the launcher gets: the type, the member, its generation and the payload.
using Received = std::tuple<FrameType, std::uint32_t, std::uint32_t, std::string>;

class RecordingLink final : public FrameSender {
 public:
  void send(FrameType type, std::uint32_t, std::string_view payload) override {
    const auto message = parse_from_member(payload).value();
    frames.emplace_back(type, message.member, message.generation, message.payload);
  }
  void send_shared(FrameType, std::uint32_t, const SharedPayload&) override {}

  std::vector<Received> frames;
};

AgentFrame hello_of(const std::string& payload) {
  return {AgentFrameKind::hello, 0, payload};
}

MemberHello greeting(std::uint32_t member) {
  MemberHello hello;
  hello.key.fill(kKeyByte);
  hello.member = member;
  hello.pid = 100 + member;
  return hello;
}

// A process that connects to the socket.
class Peer {
 public:
  explicit Peer(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
  }

  Peer& say(const std::string& bytes) {
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    return *this;
  }
  Peer& say(const AgentFrame& frame) { return say(encode_agent_frame(frame)); }
  Peer& greet(std::uint32_t member) { return say(hello_of(encode(greeting(member)))); }
  Peer& come() { return say({AgentFrameKind::come, 0, encode(MemberCome{})}); }
  Peer& leave() { return say({AgentFrameKind::leave, 1, {}}); }
  void close() { socket_.reset(); }
  int fd() const { return socket_.get(); }

  // Returns whether the server has closed the connection.
  bool is_refused() {
    char byte = 0;
    const auto count = ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }
  // Returns what has arrived.
  std::string read() {
    std::array<char, 4096> buffer{};
    const auto count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    return count > 0 ? std::string(buffer.data(), static_cast<std::size_t>(count)) : std::string();
  }

 private:
  Fd socket_;
};

class MemberServerTest : public testing::Test {
 protected:
  MemberServerTest() {
    LaunchMessage job;
    for (int i = 0; i < 32; ++i) job.key += "aa";
    for (int rank = 0; rank < 3; ++rank) {
      LaunchRank launch;
      launch.rank = rank;
      job.ranks.push_back(launch);
    }
    server_ =
        MemberServer::start(loop_, link_, folder_.path(), job, [this](const std::string& text) {
          warnings_.push_back(text);
        }).value();
  }

  Peer connect() const { return Peer(folder_.file("agent")); }
  Peer member(std::uint32_t number) const {
    Peer peer = connect();
    peer.greet(number).come();
    return peer;
  }

  // Runs the loop until this is so.
  void run_until(const std::function<bool()>& is_so) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!is_so()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "it does not happen";
      Timer tick(loop_, [] {});
      tick.start(milliseconds(5));
      loop_.run_once();
    }
  }
  void expect_refused(Peer& peer) {
    run_until([&] { return peer.is_refused(); });
    EXPECT_TRUE(link_.frames.empty());
  }
  void await_frames(std::size_t count) {
    run_until([&] { return link_.frames.size() >= count; });
  }
  // Takes all that has been sent until now: a later member's frame comes after it.
  void settle() {
    const auto before = link_.frames.size();
    Peer last = member(2);
    await_frames(before + 1);
    last.leave();
    await_frames(before + 2);
    last.close();
    link_.frames.resize(before);
  }
  std::size_t count(FrameType type) const {
    return static_cast<std::size_t>(std::count_if(
        link_.frames.begin(), link_.frames.end(),
        [type](const Received& frame) { return std::get<FrameType>(frame) == type; }));
  }
  void send(FrameType type, const std::vector<std::uint32_t>& to, const std::string& payload) {
    const auto packed = pack_to_members({to, 7, payload});
    EXPECT_TRUE(server_->on_frame({type, 0, packed}));
  }

  TemporaryFolder folder_;
  EventLoop loop_;
  RecordingLink link_;
  std::vector<std::string> warnings_;
  std::unique_ptr<MemberServer> server_;
};

// --- what it relays ------------------------------------------------------------------------------

TEST_F(MemberServerTest, RelaysBothWays) {
  Peer peer = connect();
  peer.greet(1).say({AgentFrameKind::part, 5, "blob"}).say({AgentFrameKind::leave, 5, {}});
  await_frames(2);
  EXPECT_EQ(link_.frames[0], Received(FrameType::part, 1, 5, "blob"));
  EXPECT_EQ(link_.frames[1], Received(FrameType::leave, 1, 5, ""));
  send(FrameType::over, {0, 1, 77}, "text");  // the others are not connected
  EXPECT_EQ(peer.read(), encode_agent_frame({AgentFrameKind::over, 7, "text"}));
}

TEST_F(MemberServerTest, GivesARankThePath) {
  const std::vector<std::string> expected{"HVD_AGENT=" + folder_.file("agent"), "HVD_MEMBER=2"};
  EXPECT_EQ(server_->environment_of(2), expected);
}

TEST_F(MemberServerTest, TakesAHelloInPieces) {
  Peer peer = connect();
  const auto bytes = encode_agent_frame(hello_of(encode(greeting(0))));
  peer.say(bytes.substr(0, 20));
  settle();
  peer.say(bytes.substr(20)).come();
  await_frames(1);
  EXPECT_EQ(std::get<1>(link_.frames[0]), 0u);
}

TEST_F(MemberServerTest, RefusesAMalformedFrameOfTheLauncher) {
  EXPECT_FALSE(server_->on_frame({FrameType::over, 0, "x"}));
}

// --- what it refuses -----------------------------------------------------------------------------

TEST_F(MemberServerTest, RefusesAWrongKeyMemberOrVersion) {
  for (int fault = 0; fault < 4; ++fault) {
    auto hello = greeting(1);
    if (fault == 0) hello.key[31] ^= 1;
    if (fault == 1) hello.member = 3;
    if (fault == 2) hello.member = kNoMember;
    if (fault == 3) hello.version += 1;
    Peer peer = connect();
    peer.say(hello_of(encode(hello))).come();
    expect_refused(peer);
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(MemberServerTest, RefusesAnotherFirstFrameAndGarbage) {
  const auto hello = encode(greeting(1));
  for (const auto& bytes :
       {encode_agent_frame({AgentFrameKind::come, 0, encode(MemberCome{})}),
        encode_agent_frame(hello_of(hello.substr(1))), encode_agent_frame(hello_of(hello + "x")),
        std::string("GET / HTTP/1.1\r\n\r\n"), std::string(12, '\xff'), std::string(64, '\0')}) {
    Peer peer = connect();
    peer.say(bytes);
    expect_refused(peer);
  }
}

TEST_F(MemberServerTest, RefusesFramesThatOnlyTheAgentSends) {
  for (const auto kind : {AgentFrameKind::over, AgentFrameKind::go, AgentFrameKind::removed,
                          static_cast<AgentFrameKind>(50), AgentFrameKind::hello}) {
    Peer peer = connect();
    peer.greet(1).say({kind, 1, "x"});
    expect_refused(peer);
  }
}

TEST_F(MemberServerTest, RefusesALongerFrameThanAMemberMaySend) {
  Peer peer = member(0);
  std::string header = encode_agent_frame({AgentFrameKind::part, 1, {}});
  const std::uint32_t length = kMostFromMember + 1;
  std::memcpy(header.data(), &length, sizeof length);
  peer.say(header);
  run_until([&] { return peer.is_refused(); });
}

TEST_F(MemberServerTest, KeepsFewConnectionsThatDoNotGreet) {
  Peer first = connect();
  first.say("x");
  std::vector<Peer> others;
  for (int i = 0; i < 80; ++i) others.push_back(connect());
  run_until([&] { return first.is_refused(); });
  EXPECT_FALSE(others.back().is_refused());
  others.back().greet(1).come();
  await_frames(1);
}

TEST_F(MemberServerTest, RefusesASecondProcessOfARankAndSaysSoOnce) {
  Peer first = member(1);
  await_frames(1);
  for (int i = 0; i < 2; ++i) {
    Peer second = connect();
    auto hello = greeting(1);
    hello.pid = 200;
    second.say(hello_of(encode(hello))).come();
    run_until([&] { return second.is_refused(); });
  }
  EXPECT_EQ(link_.frames.size(), 1u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0],
            "rank 1: process 200 called hvd_init while process 101 of the same rank takes part in "
            "the job; it is refused");
  EXPECT_FALSE(first.is_refused());
}

TEST_F(MemberServerTest, TakesTheNextProcessOfARankWhenTheFirstHasClosed) {
  Peer first = member(1);
  await_frames(1);
  first.leave().close();
  Peer second = member(1);
  await_frames(3);
  EXPECT_EQ(count(FrameType::come), 2u);
  EXPECT_TRUE(warnings_.empty());
}

// --- shortages -----------------------------------------------------------------------------------

TEST_F(MemberServerTest, GivesUpAMemberThatReadsNothing) {
  Peer peer = member(1);
  await_frames(1);
  const std::string payload(16u << 20, 'x');
  const auto packed = pack_to_members({{1}, 7, payload});
  int sent = 0;
  while (!(::poll(std::array<pollfd, 1>{{{peer.fd(), POLLRDHUP, 0}}}.data(), 1, 0) > 0)) {
    ASSERT_LT(++sent, 12) << "it keeps all that a member does not read";
    ASSERT_TRUE(server_->on_frame({FrameType::parts, 0, packed}));
  }
  await_frames(2);
  EXPECT_EQ(link_.frames[1], Received(FrameType::disconnected, 1, 0, ""));
}

TEST_F(MemberServerTest, AcceptsAgainAfterAShortageOfDescriptors) {
  Peer peer = connect();
  peer.greet(1).come();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  loop_.run_once();
  loop_.run_once();
  EXPECT_TRUE(link_.frames.empty());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  await_frames(1);
}

// --- lost connections ----------------------------------------------------------------------------

TEST_F(MemberServerTest, SendsOnWhatAMemberSaidBeforeItsEnd) {
  Peer peer = member(1);
  await_frames(1);
  peer.say({AgentFrameKind::part, 1, "last"}).close();
  server_->ended(1);
  ASSERT_EQ(link_.frames.size(), 2u);
  EXPECT_EQ(link_.frames[1], Received(FrameType::part, 1, 1, "last"));
  send(FrameType::over, {1}, "");  // it is not connected
}

TEST_F(MemberServerTest, ReportsAMemberThatLosesItsConnectionAndLives) {
  Peer peer = member(1);
  await_frames(1);
  peer.close();
  await_frames(2);
  EXPECT_EQ(link_.frames[1], Received(FrameType::disconnected, 1, 0, ""));
}

TEST_F(MemberServerTest, DoesNotReportAMemberThatEndsWithinTheSecond) {
  Peer first = member(1);
  Peer second = member(0);
  await_frames(2);
  first.close();
  second.close();  // its report comes after that of the first would
  settle();
  server_->ended(1);
  run_until([&] { return count(FrameType::disconnected) > 0; });
  EXPECT_EQ(count(FrameType::disconnected), 1u);
  EXPECT_EQ(link_.frames.back(), Received(FrameType::disconnected, 0, 0, ""));
}

TEST_F(MemberServerTest, DoesNotReportAMemberThatHasLeftOrNeverCame) {
  Peer left = member(1);
  left.leave();
  Peer silent = connect();
  silent.greet(0);
  await_frames(2);
  left.close();
  silent.close();
  Peer lost = member(2);
  await_frames(3);
  lost.close();
  run_until([&] { return count(FrameType::disconnected) > 0; });
  EXPECT_EQ(link_.frames.back(), Received(FrameType::disconnected, 2, 0, ""));
  EXPECT_EQ(count(FrameType::disconnected), 1u);
}

// A child keeps the connection of a process that has ended (fork without exec).
TEST_F(MemberServerTest, ForgetsARankWhoseChildHoldsItsConnection) {
  Peer peer = member(1);
  await_frames(1);
  const Fd childs(::dup(peer.fd()));
  peer.close();
  server_->ended(1);
  Peer next = member(1);
  await_frames(2);
  EXPECT_EQ(count(FrameType::come), 2u);
}

// The rank is a shell that runs one program after the other. The first has left a child.
TEST_F(MemberServerTest, TakesTheNextProcessWhenTheFirstHasEndedAndItsChildHoldsTheConnection) {
  Fd held;
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const Fd ours(pair[0]);
  const Fd theirs(pair[1]);
  const pid_t first = ::fork();
  ASSERT_GE(first, 0);
  if (first == 0) {
    Peer peer = member(1);
    peer.leave();
    const pid_t child = ::fork();
    if (child == 0) {
      char byte = 0;
      static_cast<void>(::read(theirs.get(), &byte, 1));  // until the test has ended
      ::_exit(0);
    }
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(first, nullptr, 0), first);
  await_frames(2);
  Peer next = member(1);
  await_frames(3);
  EXPECT_EQ(std::get<FrameType>(link_.frames[2]), FrameType::come);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(::write(ours.get(), "x", 1), 1);
}

}  // namespace
}  // namespace hvdrun
