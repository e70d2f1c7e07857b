#include "look/nccl_ras.hpp"

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using common::Fd;
using std::chrono::milliseconds;
using ::testing::Optional;
using ::testing::SizeIs;

const std::string kAnswer =
    R"({"communicators": [{"hash": "0xa", "ranks": [{"rank": 0, "host": "h", "pid": 1, "status": {},)"
    R"("collective_count)"
    R"(s": {"AllReduce": 2}}, {"rank": 1, "host": "h", "pid": 2, "status": {},)"
    R"("collective_count)"
    R"(s": {"AllReduce": 1}}], "missing_ranks": []}]})";

// A server that answers each connection with a function, which gets lines and sends text.
class Server {
 public:
  using Answer = std::function<std::string(const std::string& line)>;

  explicit Server(Answer answer) : answer_(std::move(answer)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    listener_.reset(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    address_ = "localhost:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& address() const { return address_; }

 private:
  void serve() {
    while (true) {
      const Fd fd(::accept(listener_.get(), nullptr, nullptr));
      if (!fd) return;
      std::string line;
      for (char byte = 0; ::recv(fd.get(), &byte, 1, 0) == 1;) {
        line += byte;
        if (byte != '\n') continue;
        const auto text = answer_(line);
        if (::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) break;
        if (line == "VERBOSE STATUS\n") break;
        line.clear();
      }
    }
  }

  Answer answer_;
  Fd listener_;
  std::string address_;
  std::thread thread_;
};

Server::Answer ras(const std::string& status, const std::string& format = "OK\n") {
  return [=](const std::string& line) -> std::string {
    if (line == "CLIENT PROTOCOL 2\n") return "SERVER PROTOCOL 2\n";
    if (line == "TIMEOUT 1\n") return "OK\n";
    if (line == "SET FORMAT json\n") return format;
    return status;
  };
}

auto ask(const Server& server, pid_t program = ::getpid(),
         milliseconds limit = milliseconds(5000)) {
  return ask_nccl(server.address(), {program}, NcclQuestion::Clock::now() + limit);
}

TEST(NcclRas, ARankIsAsked) {
  const Server server(ras(kAnswer));
  EXPECT_THAT(ask(server), Optional(SizeIs(1)));
  EXPECT_THAT(ask(server), Optional(SizeIs(1)));
}

TEST(NcclRas, AVersionWithoutJsonAnswersInText) {
  const Server server(
      ras("NCCL version 2.26.2\n\nWarnings\n========\n\n", "ERROR: Unknown command\n"));
  EXPECT_THAT(ask(server), Optional(SizeIs(0)));
}

TEST(NcclRas, AProcessOfAnotherJobIsNotBelieved) {
  const Server server(ras(kAnswer));
  EXPECT_FALSE(ask(server, ::getppid()));
}

TEST(NcclRas, AServerThatBreaksTheProtocolIsLeftAlone) {
  for (const auto& status : {std::string(), std::string("garbage"), kAnswer.substr(0, 99),
                             "{" + std::string(20u << 20, ' ') + "}"}) {
    const Server server(ras(status));
    EXPECT_FALSE(ask(server)) << status.substr(0, 99);
  }
  const Server other([](const std::string&) { return "220 mail.example.org ESMTP\n"; });
  EXPECT_FALSE(ask(other));
  const Server endless([](const std::string&) { return std::string(5000, 'x'); });
  EXPECT_FALSE(ask(endless));
}

TEST(NcclRas, ASilentServerTakesNoLongerThanTheLimit) {
  const Server server([](const std::string&) { return ""; });
  EXPECT_FALSE(ask(server, ::getpid(), milliseconds(50)));
  EXPECT_FALSE(
      ask_nccl("localhost:1", {::getpid()}, NcclQuestion::Clock::now() + milliseconds(50)));
  for (const auto* address : {"", "x", ":", "[::1", "localhost:x"})
    EXPECT_FALSE(ask_nccl(address, {::getpid()}, NcclQuestion::Clock::now() + milliseconds(50)));
}

TEST(NcclRas, TheAddressIsThatOfTheProcess) {
  using namespace std::string_literals;
  EXPECT_EQ(nccl_address(""), "localhost:28028");
  EXPECT_EQ(nccl_address("A=1\0NCCL_RAS_ADDR=[::1]:99\0B=2\0"s), "[::1]:99");
  EXPECT_EQ(nccl_address("NCCL_RAS_ADDR=a:1\0NCCL_RAS_ENABLE=0\0"s), "");
}

}  // namespace
}  // namespace hvdrun
