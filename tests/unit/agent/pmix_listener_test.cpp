#include "agent/pmix_listener.hpp"

#include "agent/socket_owner.hpp"
#include "common/fd.hpp"
#include "socket_pair.hpp"

#include <array>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// Connects this process to itself. accept() is hvdrun's replacement (pmix_listener.hpp), as in the
// agent.
class PmixListenerTest : public ::testing::Test {
 protected:
  struct Pair {
    Fd client;
    Fd server;
  };

  void SetUp() override {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    ASSERT_EQ(::bind(listener_socket_.get(), reinterpret_cast<sockaddr*>(&address_), length), 0);
    ASSERT_EQ(::listen(listener_socket_.get(), 8), 0);
    ASSERT_EQ(
        ::getsockname(listener_socket_.get(), reinterpret_cast<sockaddr*>(&address_), &length), 0);
  }

  Pair connect(std::string_view greeting = "x") {
    Pair pair{Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), Fd()};
    EXPECT_EQ(::connect(pair.client.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_),
              0);
    if (!greeting.empty()) {
      EXPECT_EQ(::send(pair.client.get(), greeting.data(), greeting.size(), 0), greeting.size());
    }
    pair.server = Fd(::accept(listener_socket_.get(), nullptr, nullptr));
    return pair;
  }

  EventLoop loop_;
  Fd listener_socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address_{};
};

// Waits for a byte without a timeout, as libpmix does.
ssize_t read_byte(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, 1, MSG_WAITALL);
}

TEST_F(PmixListenerTest, ShutsDownOnlySilentConnections) {
  PmixListener listener(loop_, std::chrono::milliseconds(50), [](std::uint32_t) { return false; });
  const Pair silent = connect("");
  const Pair speaks = connect("ab");
  ASSERT_EQ(read_byte(speaks.server.get()), 1);
  // libpmix reads on a thread of its own.
  Mailbox mailbox(loop_);
  auto read = std::async(std::launch::async, [&] {
    const auto result = read_byte(silent.server.get());
    mailbox.post([this] { loop_.stop(); });
    return result;
  });
  loop_.run();
  EXPECT_EQ(read.get(), 0);
  EXPECT_EQ(read_byte(speaks.server.get()), 1);
}

TEST_F(PmixListenerTest, DoesNotTouchALaterConnectionWithTheSameDescriptor) {
  PmixListener listener(loop_, std::chrono::milliseconds(50), [](std::uint32_t) { return false; });
  const auto [one, other] = make_socket_pair();
  Pair closed = connect();
  const Fd later(::dup2(one.get(), closed.server.release()));
  Timer end(loop_, [this] { loop_.stop(); });
  end.start(std::chrono::milliseconds(150));
  loop_.run();
  ASSERT_EQ(::send(other.get(), "a", 1, 0), 1);
  EXPECT_EQ(read_byte(later.get()), 1);
}

// What a client of PMIx sends first.
std::string greeting_of(std::uint32_t rank) {
  std::string body("native\0", 7);
  body += std::string(4, '\0');  // no credential
  body += '\0';                  // a rank
  body += std::string("hvdrun-1\0", 9);
  const std::uint32_t number = htonl(rank);
  body.append(reinterpret_cast<const char*>(&number), sizeof number);
  const std::array<std::uint32_t, 4> header{0, 0, static_cast<std::uint32_t>(body.size()), 0};
  return std::string(reinterpret_cast<const char*>(header.data()), sizeof header) + body;
}

TEST_F(PmixListenerTest, AsksWhetherToRefuseALaterConnectionOfARank) {
  std::vector<std::uint32_t> asked;
  PmixListener listener(loop_, std::chrono::seconds(10), [&](std::uint32_t rank) {
    asked.push_back(rank);
    return rank == 7;
  });
  const auto greet = [this](std::uint32_t rank) { return connect(greeting_of(rank)); };
  Pair ended = greet(5);
  const Pair first = greet(7);
  const Pair other = greet(8);
  const Pair other_again = greet(8);
  ended.server.reset();
  const Pair later = greet(5);
  const Pair refused = greet(7);
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{8, 7}));
  for (const Pair* accepted : {&first, &other, &other_again, &later})
    EXPECT_EQ(read_byte(accepted->server.get()), 1);
  EXPECT_EQ(read_byte(refused.server.get()), 0) << "the greeting can still be read";
}

TEST_F(PmixListenerTest, FindsTheOwnerOfThePeerSocket) {
  Pair pair = connect();
  const auto owner = owner_of_other_end(pair.server.get());
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->user, ::geteuid());
  std::error_code error;
  EXPECT_TRUE(sockets_of(::getpid(), error).contains(owner->inode));
  pair.client.reset();
  EXPECT_FALSE(owner_of_other_end(pair.server.get()));
}

}  // namespace
}  // namespace hvdrun
