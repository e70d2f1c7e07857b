#include "agent/pmix_listener.hpp"

#include "agent/socket_owner.hpp"
#include "common/fd.hpp"
#include "socket_pair.hpp"

#include <future>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// A connection to ourselves; accept() is the program's own.
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
    ASSERT_EQ(::bind(door_.get(), reinterpret_cast<sockaddr*>(&address_), length), 0);
    ASSERT_EQ(::listen(door_.get(), 8), 0);
    ASSERT_EQ(::getsockname(door_.get(), reinterpret_cast<sockaddr*>(&address_), &length), 0);
  }

  Pair connect() {
    Pair pair{Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), Fd()};
    EXPECT_EQ(::connect(pair.client.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_),
              0);
    pair.server = Fd(::accept(door_.get(), nullptr, nullptr));
    return pair;
  }

  EventLoop loop_;
  Fd door_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address_{};
};

// Waits for a byte, without a limit, as libpmix does.
ssize_t read_byte(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, 1, MSG_WAITALL);
}

TEST_F(PmixListenerTest, ShutsDownWhatSaysNothingOnly) {
  PmixListener listener(loop_, std::chrono::milliseconds(50));
  const Pair silent = connect();
  const Pair speaks = connect();
  ASSERT_EQ(::send(speaks.client.get(), "ab", 2, 0), 2);
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

TEST_F(PmixListenerTest, TouchesNoLaterConnectionWithTheSameDescriptor) {
  PmixListener listener(loop_, std::chrono::milliseconds(50));
  const auto [one, other] = make_socket_pair();
  Pair closed = connect();
  const Fd later(::dup2(one.get(), closed.server.release()));
  Timer end(loop_, [this] { loop_.stop(); });
  end.start(std::chrono::milliseconds(150));
  loop_.run();
  ASSERT_EQ(::send(other.get(), "a", 1, 0), 1);
  EXPECT_EQ(read_byte(later.get()), 1);
}

TEST_F(PmixListenerTest, KnowsWhoHasTheOtherEnd) {
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
