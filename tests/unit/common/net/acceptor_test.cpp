#include "common/net/acceptor.hpp"

#include "common/net/tcp.hpp"

#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace common {
namespace {

constexpr std::chrono::minutes kNever{10};

// Shows the key with its first byte, "k", and is admitted with its second one, "!".
class TestCandidate final : public Candidate {
 public:
  explicit TestCandidate(Fd socket) : socket_(std::move(socket)) {}
  State advance() override {
    char byte = 0;
    const ssize_t got = ::recv(socket_.get(), &byte, 1, 0);
    if (got < 0 && would_block(errno)) return State::waiting;
    if (got <= 0) return State::refused;
    if (byte == 'k') has_shown_key_ = true;
    if (byte == '!') return State::admitted;
    return byte == 'k' || byte == '?' ? State::waiting : State::refused;
  }
  bool has_shown_key() const override { return has_shown_key_; }
  int socket() const override { return socket_.get(); }

 private:
  Fd socket_;
  bool has_shown_key_ = false;
};

class AcceptorTest : public testing::Test {
 protected:
  void open(Acceptor::Limits limits) {
    auto listener = make_listener(*parse_address("127.0.0.1"));
    ASSERT_TRUE(listener.ok());
    address_ = *local_address(listener->get());
    std::vector<Fd> listeners;
    listeners.push_back(std::move(*listener));
    auto opened = Acceptor::open(std::move(listeners), limits, [](Fd socket) {
      return std::make_unique<TestCandidate>(std::move(socket));
    });
    ASSERT_TRUE(opened.ok());
    acceptor_ = std::move(*opened);
  }

  // Connects and sends the text.
  Fd connect(const std::string& text) {
    auto socket = make_tcp_socket(address_);
    EXPECT_TRUE(socket.ok());
    EXPECT_EQ(connect_tcp(socket->get(), address_), 0);
    pollfd connected{socket->get(), POLLOUT, 0};
    EXPECT_EQ(::poll(&connected, 1, 60000), 1);
    send(*socket, text);
    return std::move(*socket);
  }
  static void send(const Fd& socket, const std::string& text) {
    EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  // Waits as an owner does, until a candidate is admitted or `done`.
  template <class Done>
  std::unique_ptr<Candidate> run_until(Done done) {
    while (!done()) {
      if (auto admitted = acceptor_->next()) return admitted;
      if (done()) break;
      int wait_ms = 60000;
      if (const auto wake = acceptor_->wake())
        wait_ms = static_cast<int>(
            std::chrono::ceil<std::chrono::milliseconds>(*wake - Acceptor::Clock::now()).count());
      pollfd ready{acceptor_->fd(), POLLIN, 0};
      ::poll(&ready, 1, std::max(wait_ms, 0));
    }
    return nullptr;
  }
  std::unique_ptr<Candidate> run_until_admitted() {
    return run_until([] { return false; });
  }

  static bool is_closed(const Fd& socket) {
    char byte = 0;
    return ::recv(socket.get(), &byte, 1, 0) == 0 || errno == ECONNRESET;
  }

  Address address_;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, AdmitsWhoProvesItselfAtOnceOrLater) {
  open({8, kNever});
  const Fd quick = connect("k!");
  // It reads a byte at a time, and the rest is still to be read.
  EXPECT_NE(run_until_admitted(), nullptr);
  const Fd slow = connect("k");
  run_until([&] { return acceptor_->pending() == 1; });
  send(slow, "!");
  EXPECT_NE(run_until_admitted(), nullptr);
  EXPECT_EQ(acceptor_->pending(), 0u);
  EXPECT_EQ(acceptor_->refused(), 0u);
}

TEST_F(AcceptorTest, OnlyTheOldestWithoutTheKeyGivesWay) {
  open({2, kNever});
  const Fd with_key = connect("k");
  run_until([&] { return acceptor_->pending() == 1; });
  std::vector<Fd> strangers;
  for (std::size_t i = 0; i < 5; ++i) {
    strangers.push_back(connect("?"));
    run_until([&] { return acceptor_->pending() == 2 && acceptor_->refused() == i; });
  }
  EXPECT_TRUE(is_closed(strangers[0]));
  EXPECT_FALSE(is_closed(strangers[4]));
  send(with_key, "!");
  EXPECT_NE(run_until_admitted(), nullptr);
}

TEST_F(AcceptorTest, DropsWhoTakesTooLong) {
  open({8, std::chrono::milliseconds(20)});
  const Fd slow = connect("?");
  run_until([&] { return acceptor_->refused() == 1; });
  EXPECT_EQ(acceptor_->pending(), 0u);
  EXPECT_FALSE(acceptor_->wake());
}

// Lets this process open no more files, while it lives.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const Fd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const rlimit none{static_cast<rlim_t>(next.get()), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

TEST_F(AcceptorTest, ResumesAfterAPauseWithoutDescriptors) {
  open({8, kNever});
  const Fd client = connect("!");
  {
    const NoMoreFiles limit;
    run_until([&] { return acceptor_->short_since().has_value(); });
    EXPECT_EQ(acceptor_->next(), nullptr);
    EXPECT_TRUE(acceptor_->wake()) << "it tries again without an event";
    pollfd ready{acceptor_->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 0), 0) << "its owner would spin";
  }
  EXPECT_NE(run_until_admitted(), nullptr);
  EXPECT_FALSE(acceptor_->short_since());
}

TEST_F(AcceptorTest, DropsAPendingConnectionIfNoDescriptorIsLeft) {
  open({8, kNever});
  const Fd idle = connect("?");
  run_until([&] { return acceptor_->pending() == 1; });
  const Fd client = connect("!");
  const NoMoreFiles limit;
  EXPECT_NE(run_until_admitted(), nullptr);
  EXPECT_EQ(acceptor_->refused(), 1u);
  EXPECT_TRUE(is_closed(idle));
}

}  // namespace
}  // namespace common
