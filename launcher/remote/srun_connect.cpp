// How the agent that srun has started finds its launcher.
#include "remote/srun_agent.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Status = TlsStream::Status;

// For one address; a launcher that is busy with thousands of agents needs a while.
constexpr milliseconds kAttempt{10000};
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{1000};

milliseconds left_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  return std::max(left, milliseconds(0));
}

bool is_end_of_file(int fd) {
  std::array<char, 256> ignored;  // NOLINT: nobody looks at it
  const ssize_t got = ::read(fd, ignored.data(), ignored.size());
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

class Caller {
 public:
  Caller(const Invitation& invitation, const Introduction& introduction, int lifeline)
      : introduction_(pack_introduction(introduction)),
        lifeline_(lifeline),
        deadline_(Clock::now() + invitation.patience) {}

  bool in_time() const { return Clock::now() < deadline_; }
  bool abandoned() const { return abandoned_; }

  void pause(milliseconds time) {
    attempt_deadline_ = std::min(deadline_, Clock::now() + time);
    introduced_ = false;
    static_cast<void>(wait(-1, 0));
  }

  // Error: what was met there.
  Result<Connection> call(const TlsContext& context, const LinkAddress& address) {
    attempt_deadline_ = std::min(deadline_, Clock::now() + kAttempt);
    introduced_ = false;
    auto connection = try_to(context, address);
    if (connection) return connection;
    return tl::unexpected(
        with_context(fmt::format("{} port {}", address.address, address.port), connection.error()));
  }

 private:
  // Error: the time is over, or the launcher has hung up.
  Result<void> wait(int fd, short events) {
    while (true) {
      std::array<pollfd, 2> waiting{pollfd{fd, events, 0},
                                    pollfd{introduced_ ? -1 : lifeline_, POLLIN, 0}};
      const int ready = ::poll(waiting.data(), waiting.size(),
                               static_cast<int>(left_until(attempt_deadline_).count()));
      if (waiting[1].revents != 0 && is_end_of_file(lifeline_)) {
        abandoned_ = true;
        return fail("the launcher has hung up");
      }
      if (waiting[0].revents != 0) return {};
      if (ready == 0) return fail("no answer");
    }
  }

  Result<Fd> connect(const LinkAddress& to) {
    sockaddr_storage address{};
    socklen_t size = sizeof(sockaddr_in);
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    if (::inet_pton(AF_INET, to.address.c_str(), &v4->sin_addr) == 1) {
      v4->sin_family = AF_INET;
      v4->sin_port = htons(to.port);
    } else if (::inet_pton(AF_INET6, to.address.c_str(), &v6->sin6_addr) == 1) {
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons(to.port);
      size = sizeof *v6;
    } else {
      return fail("is no IP address");
    }
    Fd socket(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return fail_errno("cannot open a socket", errno);
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0) return socket;
    if (errno != EINPROGRESS) return fail_errno("cannot connect", errno);
    HVD_CHECK(wait(socket.get(), POLLOUT));
    int error = 0;
    socklen_t error_size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &error_size);
    if (error != 0) return fail_errno("cannot connect", error);
    return socket;
  }

  // Until `operation` is done.
  template <class Operation>
  Result<void> drive(TlsStream& stream, Operation operation) {
    while (true) {
      switch (operation()) {
        case Status::done:
          return {};
        case Status::want_read:
          HVD_CHECK(wait(stream.fd(), POLLIN));
          break;
        case Status::want_write:
          HVD_CHECK(wait(stream.fd(), POLLOUT));
          break;
        case Status::closed:
          return fail("the launcher has closed the connection");
        case Status::failed:
          return fail(stream.error());
      }
    }
  }

  Result<Connection> try_to(const TlsContext& context, const LinkAddress& address) {
    HVD_TRY(Fd socket, connect(address));
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    HVD_TRY(TlsStream stream, context.wrap(std::move(socket)));
    HVD_CHECK(drive(stream, [&] { return stream.handshake(); }));
    // It is short and the first: it goes whole.
    HVD_CHECK(drive(
        stream, [&] { return stream.write(introduction_.data(), introduction_.size()).status; }));
    // Who has taken all agents in hangs up, and srun may bring that before the welcome comes.
    introduced_ = true;
    // It is one record, and what follows waits for our word.
    std::array<char, kWelcomeSize> answer{};
    std::size_t size = 0;
    HVD_CHECK(drive(stream, [&] {
      const auto got = stream.read(answer.data(), answer.size());
      size = got.bytes;
      return got.status;
    }));
    HVD_TRY(const auto agent, parse_welcome({answer.data(), size}));
    return Connection{std::move(stream), agent};
  }

  std::string introduction_;
  int lifeline_;
  Clock::time_point deadline_;
  Clock::time_point attempt_deadline_;
  bool introduced_ = false;  // on this connection
  bool abandoned_ = false;
};

}  // namespace

Result<Invitation> receive_invitation(int input, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  std::string text;
  std::array<char, 1024> buffer;  // NOLINT: filled by read
  while (!is_whole_invitation(text)) {
    pollfd waiting{input, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left_until(deadline).count()));
    if (ready == 0) return fail("srun has brought no word from the launcher in time");
    if (ready < 0) continue;  // EINTR
    const ssize_t got = ::read(input, buffer.data(), buffer.size());
    if (got == 0)
      return fail(text.empty() ? "the launcher has hung up before it said anything"
                               : "the launcher has hung up");
    if (got < 0 && errno != EAGAIN && errno != EINTR) return fail_errno("cannot read stdin", errno);
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return parse_invitation(text);
}

Result<Connection> connect_to_launcher(const Invitation& invitation,
                                       const Introduction& introduction, int lifeline) {
  HVD_TRY(const TlsContext context, TlsContext::make(TlsContext::Side::client, invitation.key));
  HVD_CHECK(set_nonblocking(lifeline));
  Caller caller(invitation, introduction, lifeline);
  Error last;
  for (milliseconds pause = kFirstPause; caller.in_time(); pause *= 2) {
    for (const auto& address : invitation.addresses) {
      auto connection = caller.call(context, address);
      if (connection) return connection;
      last = connection.error();
      if (caller.abandoned()) return tl::unexpected(last);
    }
    caller.pause(std::min(pause, kLongestPause));
  }
  return fail(
      fmt::format("cannot reach the launcher ({}); --network-interface says which of its "
                  "interfaces this host can reach",
                  last.message));
}

}  // namespace hvdrun
