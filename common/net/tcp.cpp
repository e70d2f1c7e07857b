#include "common/net/tcp.hpp"

#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace common {
namespace {

constexpr int kBacklog = 4096;       // the kernel lowers it to net.core.somaxconn
constexpr int kFirstDataWithin = 5;  // seconds

void set_option(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

Result<Fd, int> make_listener(const Address& address) {
  auto socket = make_tcp_socket(address);
  if (!socket) return socket;
  const int fd = socket->get();
  // For a port that an earlier job has just left.
  if (address.port() != 0) set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.storage.ss_family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  set_option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, kFirstDataWithin);
  if (::bind(fd, address.get(), address.length) != 0 || ::listen(fd, kBacklog) != 0) return errno;
  return socket;
}

Fd accept_tcp(int listener) {
  Fd socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

Result<Fd, int> make_tcp_socket(const Address& address) {
  Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  return socket;
}

int connect_tcp(int socket, const Address& address) {
  if (::connect(socket, address.get(), address.length) == 0 || errno == EINPROGRESS) return 0;
  return errno;
}

int connect_error(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  if (error == 0) set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return error;
}

bool has_acknowledged(int socket, std::chrono::milliseconds time) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  const bool owed = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
  return !owed || std::chrono::milliseconds(info.tcpi_last_ack_recv) <= time;
}

bool sends_in_vain(int socket) {
  constexpr std::uint8_t kInVain = 2;
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         info.tcpi_state == TCP_ESTABLISHED && info.tcpi_retransmits >= kInVain;
}

bool has_answered_last_send(int socket) {
  constexpr std::uint32_t kFresh = 1000;  // ms
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  return info.tcpi_last_data_sent < kFresh || info.tcpi_last_ack_recv <= info.tcpi_last_data_sent;
}

}  // namespace common
