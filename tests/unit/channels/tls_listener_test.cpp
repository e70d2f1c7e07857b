// Tests which connections TlsListener accepts and which it drops. The agents run the real code,
// each in a thread.
#include "channels/tls_listener.hpp"

#include "base/system.hpp"
#include "common/net/tcp.hpp"
#include "remote/srun_agent.hpp"
#include "run_until.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kTimeout{30000};  // longer than any test

class TlsListenerTest : public testing::Test {
 protected:
  ~TlsListenerTest() override {
    lifelines_.clear();
    for (auto& agent : agents_) agent.join();
  }

  void open(TlsListener::Limits limits, const std::vector<std::string>& addresses = {"127.0.0.1"}) {
    auto listener = TlsListener::open(
        loop_, key_, addresses, limits,
        {[this](const auto& agent) {
           ++asked_;
           return expected_.contains(agent.host) ? std::optional<std::uint32_t>(7) : std::nullopt;
         },
         [this](const auto& agent, Connection tls) {
           expected_.erase(agent.host);
           admitted_.emplace(agent.host);
           connections_.push_back(std::move(tls));
         }});
    ASSERT_TRUE(listener) << listener.error().message;
    listener_ = std::move(*listener);
  }

  void start_agent(const std::string& host, const TlsKey& key) {
    AgentCredentials credentials{"", key, std::chrono::seconds(30), listener_->addresses()};
    auto lifeline = make_pipe();
    ASSERT_TRUE(lifeline) << lifeline.error().message;
    lifelines_.push_back(std::move(lifeline->write));
    agents_.emplace_back([this, credentials, host, alive = std::move(lifeline->read)] {
      const auto stream = connect_to_launcher(credentials, {host, 0}, alive.get());
      mailbox_.post([this, accepted = stream.ok()] { ++(accepted ? accepted_ : rejected_); });
    });
  }

  // Returns a connection that has sent the beginning of a TLS handshake.
  Fd begin_handshake() const {
    Fd socket = connect();
    EXPECT_EQ(::send(socket.get(), "\x16\x03", 2, MSG_NOSIGNAL), 2);
    return socket;
  }
  // Returns a blocking connection.
  Fd connect() const {
    const Address address = *parse_address("127.0.0.1", listener_->addresses().front().port);
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), address.get(), address.length), 0);
    return socket;
  }

  EventLoop loop_;
  Mailbox mailbox_{loop_};  // the agents' threads post into it
  TlsKey key_ = make_link_key("job");
  std::set<std::string> expected_{"n1"};
  std::set<std::string> admitted_;
  std::vector<Connection> connections_;
  std::unique_ptr<TlsListener> listener_;
  std::vector<std::thread> agents_;
  std::vector<Fd> lifelines_;  // an agent gives up when its lifeline is closed
  int asked_ = 0;              // calls of number_of
  int accepted_ = 0;
  int rejected_ = 0;
};

TEST_F(TlsListenerTest, AcceptsAnAgent) {
  open({8, kTimeout});
  start_agent("n1", key_);
  run_until(
      loop_, [&] { return accepted_ == 1; }, "an accepted agent");
  EXPECT_EQ(admitted_, std::set<std::string>{"n1"});
  EXPECT_EQ(listener_->refused(), 0u);
}

TEST_F(TlsListenerTest, AcceptsAnAgentOverIpv6) {
  open({8, kTimeout}, {"::1"});
  start_agent("n1", key_);
  run_until(
      loop_, [&] { return accepted_ == 1; }, "an accepted agent");
}

TEST_F(TlsListenerTest, IgnoresAddressesOfOtherHosts) {
  open({8, kTimeout}, {"192.0.2.1", "127.0.0.1"});
  ASSERT_EQ(listener_->addresses().size(), 1u);
  EXPECT_EQ(listener_->addresses().front().address, "127.0.0.1");
  EXPECT_FALSE(TlsListener::open(loop_, key_, {"192.0.2.1"}, {}, {}));
  EXPECT_FALSE(TlsListener::open(loop_, key_, {}, {}, {}));
}

TEST_F(TlsListenerTest, RefusesAgentsWithoutTheKey) {
  open({8, kTimeout});
  start_agent("n1", make_link_key("job"));
  // The agent tries again, and each attempt is refused.
  run_until(
      loop_, [&] { return listener_->refused() >= 2; }, "refusals");
  lifelines_.clear();
  run_until(
      loop_, [&] { return rejected_ == 1; }, "an agent that gives up");
  EXPECT_TRUE(admitted_.empty());
}

TEST_F(TlsListenerTest, RejectsAnAgentOfAnUnexpectedHost) {
  open({8, kTimeout});
  start_agent("n7", key_);
  run_until(
      loop_, [&] { return asked_ == 2; }, "an agent that tries again");
  EXPECT_TRUE(admitted_.empty());
  EXPECT_EQ(listener_->refused(), 0u);  // since it has the key
}

TEST_F(TlsListenerTest, DropsConnectionsWithoutTls) {
  open({8, kTimeout});
  const Fd browser = connect();
  ASSERT_EQ(::send(browser.get(), "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  const Fd scanner = connect();
  ASSERT_EQ(::shutdown(scanner.get(), SHUT_RDWR), 0);
  run_until(
      loop_, [&] { return listener_->refused() == 2; }, "two refusals");
  char byte = 0;
  EXPECT_LE(::recv(browser.get(), &byte, 1, 0), 0);  // the listener sends no reply
}

// A peer that sends a byte now and then gets no more time.
TEST_F(TlsListenerTest, DropsASlowHandshakeAfterTheTimeout) {
  open({8, std::chrono::milliseconds(300)});
  const Fd slow = connect();
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  std::size_t said = 0;
  Timer next(loop_, [&] {
    ::send(slow.get(), &hello[said % hello.size()], 1, MSG_NOSIGNAL);
    if (++said < hello.size()) next.start(std::chrono::milliseconds(50));
  });
  next.start(std::chrono::milliseconds(1));
  run_until(
      loop_, [&] { return listener_->refused() == 1; }, "a refusal");
  EXPECT_EQ(listener_->waiting(), 0u);
}

TEST_F(TlsListenerTest, DropsTheOldestConnectionAboveTheLimit) {
  open({2, kTimeout});
  std::vector<Fd> idle;
  for (int i = 0; i < 5; ++i) idle.push_back(begin_handshake());
  run_until(
      loop_, [&] { return listener_->refused() == 3; }, "three refusals");
  EXPECT_EQ(listener_->waiting(), 2u);
  char byte = 0;
  EXPECT_LE(::recv(idle[0].get(), &byte, 1, 0), 0);
  EXPECT_EQ(::recv(idle[4].get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(TlsListenerTest, DropsPendingConnectionsWhenClosed) {
  open({8, kTimeout});
  const Fd idle = begin_handshake();
  run_until(
      loop_, [&] { return listener_->waiting() == 1; }, "the idle connection");
  listener_->close();
  EXPECT_EQ(listener_->refused(), 1u);
  const auto listening = TlsListener::open(loop_, key_, {"127.0.0.1"}, {}, {});
  ASSERT_TRUE(listening);  // the loop still works, and the old port is free
  char byte = 0;
  EXPECT_LE(::recv(idle.get(), &byte, 1, 0), 0);
}

// An agent has sent its first message. Connections without the key begin a handshake and stop.
TEST_F(TlsListenerTest, KeepsAnAgentWithTheKeyWhenOthersExceedTheLimit) {
  open({4, kTimeout});
  Fd socket = connect();
  ASSERT_EQ(::fcntl(socket.get(), F_SETFL, O_NONBLOCK), 0);
  auto agent = Tls::start(socket.get(), Tls::Side::client, key_);
  ASSERT_TRUE(agent) << agent.error();
  ASSERT_EQ(*(*agent)->handshake(), POLLIN);
  run_until(
      loop_, [&] { return listener_->waiting() == 1; }, "the agent's first message");
  std::vector<Fd> keyless;
  for (int i = 0; i < 20; ++i) keyless.push_back(begin_handshake());
  run_until(
      loop_, [&] { return listener_->refused() >= 17; }, "dropped connections without the key");
  run_until(
      loop_, [&] { return *(*agent)->handshake() == 0; }, "the handshake");
}

// 200 connections send nothing and 200 send garbage while agents connect.
TEST_F(TlsListenerTest, AcceptsAgentsAmongManyInvalidConnections) {
  open({64, kTimeout});
  std::vector<Fd> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(connect());  // it waits in the kernel
    const Fd garbage_sender = connect();
    const std::string garbage = i % 2 == 0 ? std::string(2000, static_cast<char>(i))
                                           : "\x16\x03\x01" + std::string(500, '\xff');
    ::send(garbage_sender.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    if (i % 50 == 25) {
      const std::string host = "m" + std::to_string(i);
      expected_.insert(host);
      start_agent(host, key_);
    }
    loop_.run_once();
  }
  run_until(
      loop_, [&] { return accepted_ == 4; }, "all four agents");
  EXPECT_EQ(rejected_, 0);
  run_until(
      loop_, [&] { return listener_->refused() + listener_->waiting() >= 200; },
      "the invalid connections");
  EXPECT_LE(listener_->waiting(), 64u);
}

}  // namespace
}  // namespace hvdrun
